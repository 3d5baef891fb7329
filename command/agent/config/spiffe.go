package config

import (
	"errors"

	"github.com/open-nomad/open-nomad/internal/pki"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
)

// Spiffe is the server.spiffe block. Nomad does not have it.
type Spiffe struct {
	TrustDomain string   `hcl:"trust_domain"`
	DNS         []string `hcl:"dns"`
}

// checkSpiffe checks the server.spiffe block.
func (s *Settings) checkSpiffe() error {
	c := &s.Server.Spiffe
	const path = "server.spiffe."
	var errs []error
	if c.TrustDomain != "" {
		if err := spiffe.CheckTrustDomain(c.TrustDomain); err != nil {
			errs = append(errs, s.Fault(path+"trust_domain", "%v", err))
		}
	} else if len(c.DNS) > 0 {
		errs = append(errs, s.Fault(path+"dns", "has no effect without trust_domain: set it too"))
	}
	for _, name := range c.DNS {
		if err := pki.CheckDNSName(name); err != nil || name[0] == '*' {
			errs = append(errs, s.Fault(path+"dns", "%q is not a suffix of DNS names: use a name such as svc.example.org, without *", name))
		}
	}
	return errors.Join(errs...)
}

// spiffe returns the configuration of SPIFFE identities.
func (sv *Server) spiffe() server.Spiffe {
	return server.Spiffe{TrustDomain: sv.Spiffe.TrustDomain, DNS: sv.Spiffe.DNS}
}
