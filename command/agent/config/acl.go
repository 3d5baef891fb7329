package config

import (
	"errors"
	"time"
)

// ACL is the acl block. TokenTTL, PolicyTTL and RoleTTL are how long a client caches tokens,
// policies and roles.
type ACL struct {
	Enabled               bool          `hcl:"enabled"`
	TokenTTL              time.Duration `hcl:"token_ttl" default:"30s"`
	PolicyTTL             time.Duration `hcl:"policy_ttl" default:"30s"`
	RoleTTL               time.Duration `hcl:"role_ttl" default:"30s"`
	ReplicationToken      string        `hcl:"replication_token"`
	TokenMinExpirationTTL time.Duration `hcl:"token_min_expiration_ttl" default:"1m"`
	TokenMaxExpirationTTL time.Duration `hcl:"token_max_expiration_ttl" default:"24h"`
}

// checkACL checks the TTLs of the acl block.
func (s *Settings) checkACL() error {
	a := &s.ACL
	var errs []error
	for key, ttl := range map[string]time.Duration{"token_ttl": a.TokenTTL, "policy_ttl": a.PolicyTTL, "role_ttl": a.RoleTTL,
		"token_min_expiration_ttl": a.TokenMinExpirationTTL} {
		if ttl <= 0 {
			errs = append(errs, s.Fault("acl."+key, "must be above 0"))
		}
	}
	if a.TokenMaxExpirationTTL < a.TokenMinExpirationTTL {
		errs = append(errs, s.Fault("acl.token_max_expiration_ttl", "must not be below token_min_expiration_ttl, %v", a.TokenMinExpirationTTL))
	}
	return errors.Join(errs...)
}
