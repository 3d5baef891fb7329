package identity

import (
	"time"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// oldest is the version of the agents that store identities.
var oldest = version.Must(version.NewVersion("1.11.0-beta.1"))

// grace is how near its end an identity must be for a failure to renew it to
// count.
const grace = 10 * time.Minute

// Registration is what decides whether Node.Register gives the node a new
// identity.
type Registration struct {
	Node *nomad.Node
	// Caller is who registers.
	Caller *acls.AuthenticatedIdentity
	// Expired: the caller's token was good once.
	Expired bool
	// TTL is what the node's pool gives now.
	TTL time.Duration
	Now time.Time
}

// Generates decides by the first row of compat/identity.md section 3 that fits.
// A caller whose token is bad in another way than by its age never comes here.
func (r Registration) Generates() bool {
	if r.Expired {
		return true
	}
	if !StoresIdentities(r.Node) {
		return false
	}
	c := r.Caller.Claims
	if r.Caller.ACLToken != nil || r.Caller.ClientID != "" && (c == nil || c.NodeIdentityClaims == nil) {
		return true
	}
	if c == nil {
		return false
	}
	if c.NodeIntroductionIdentityClaims != nil {
		return true
	}
	had := c.NodeIdentityClaims
	if had == nil {
		return false
	}
	if had.NodePool != r.Node.NodePool || had.NodeClass != r.Node.NodeClass || had.NodeDatacenter != r.Node.Datacenter {
		return true
	}
	return dueForRenewal(c, r.TTL, r.Now)
}

// Heartbeat is what decides whether Node.UpdateStatus gives the node a new
// identity.
type Heartbeat struct {
	Node   *nomad.Node
	Caller *acls.AuthenticatedIdentity
	// Forced: the node asks for a new one.
	Forced bool
	// TTL is what the node's pool gives now.
	TTL time.Duration
	Now time.Time
}

// Generates decides by the first row of compat/identity.md section 3 that fits.
func (h Heartbeat) Generates() bool {
	if !StoresIdentities(h.Node) {
		return false
	}
	c := h.Caller.Claims
	if c == nil || c.NodeIdentityClaims == nil {
		return h.Caller.ClientID != "" // shown the secret ID: no identity is stored yet
	}
	return h.Forced || dueForRenewal(c, h.TTL, h.Now)
}

// FailureCounts says whether a failure to sign must fail the heartbeat: only
// when the caller's identity is about to end. Otherwise the next one retries.
func (h Heartbeat) FailureCounts() bool {
	c := h.Caller.Claims
	return c != nil && c.NodeIdentityClaims != nil && time.Unix(c.Expiry, 0).Before(h.Now.Add(grace))
}

// dueForRenewal says whether less than a third of the TTL is left.
func dueForRenewal(c *nomad.IdentityClaims, ttl time.Duration, now time.Time) bool {
	return time.Unix(c.Expiry, 0).Before(now.Add(ttl / 3))
}

// StoresIdentities says whether the node's agent is of a version that keeps
// identities.
func StoresIdentities(n *nomad.Node) bool {
	v, err := version.NewVersion(n.Attributes["nomad.version"])
	return err == nil && v.GreaterThanOrEqual(oldest)
}
