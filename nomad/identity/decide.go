package identity

import (
	"time"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// oldest is the first agent version that stores identities.
var oldest = version.Must(version.NewVersion("1.11.0-beta.1"))

// grace is the remaining lifetime below which a failed renewal fails the heartbeat.
const grace = 10 * time.Minute

// Registration is the input of the decision whether Node.Register issues a new node identity.
type Registration struct {
	Node *nomad.Node
	// Caller is the registering caller.
	Caller *rbac.AuthenticatedIdentity
	// Expired is set if the caller's token was valid and has expired.
	Expired bool
	// TTL is the current TTL of the node's pool.
	TTL time.Duration
	// Named is set if identities bind the name of the node. One without a name is replaced.
	Named bool
	Now   time.Time
}

// Generates applies the first matching rule, as Nomad 2.0. A caller with a token that is invalid
// for another reason than its age is rejected earlier.
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
	if r.Named && had.AdmittedName == "" || had.NodePool != r.Node.NodePool || had.NodeClass != r.Node.NodeClass ||
		had.NodeDatacenter != r.Node.Datacenter {
		return true
	}
	return dueForRenewal(c, r.TTL, r.Now)
}

// Heartbeat is the input of the decision whether Node.UpdateStatus issues a new node identity.
type Heartbeat struct {
	Node   *nomad.Node
	Caller *rbac.AuthenticatedIdentity
	// Forced is set if the node requests a new identity.
	Forced bool
	// TTL is the current TTL of the node's pool.
	TTL time.Duration
	// Named is set if identities bind the name of the node. One without a name is replaced.
	Named bool
	Now   time.Time
}

// Generates applies the first matching rule, as Nomad 2.0.
func (h Heartbeat) Generates() bool {
	if !StoresIdentities(h.Node) {
		return false
	}
	c := h.Caller.Claims
	if c == nil || c.NodeIdentityClaims == nil {
		return h.Caller.ClientID != "" // authenticated by secret ID: no identity is stored yet
	}
	return h.Forced || h.Named && c.AdmittedName == "" || dueForRenewal(c, h.TTL, h.Now)
}

// FailureCounts reports whether a signing failure fails the heartbeat: only if the caller's
// identity is about to expire. Otherwise the next heartbeat retries.
func (h Heartbeat) FailureCounts() bool {
	c := h.Caller.Claims
	return c != nil && c.NodeIdentityClaims != nil && time.Unix(c.Expiry, 0).Before(h.Now.Add(grace))
}

// dueForRenewal reports whether less than a third of the TTL remains.
func dueForRenewal(c *idtoken.Claims, ttl time.Duration, now time.Time) bool {
	return time.Unix(c.Expiry, 0).Before(now.Add(ttl / 3))
}

// StoresIdentities reports whether the version of the node's agent stores identities.
func StoresIdentities(n *nomad.Node) bool {
	v, err := untrusted.Version(n.Attributes["nomad.version"])
	return err == nil && v.GreaterThanOrEqual(oldest)
}
