package identity_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// nodeClaims returns the claims of a node identity with the remaining lifetime.
func nodeClaims(left time.Duration, edit func(*idtoken.NodeIdentityClaims)) *idtoken.Claims {
	c := &idtoken.Claims{NodeIdentityClaims: &idtoken.NodeIdentityClaims{NodeID: "n1", NodePool: "gpu", NodeClass: "big",
		NodeDatacenter: "dc1"}}
	c.Expiry = now.Add(left).Unix()
	if edit != nil {
		edit(c.NodeIdentityClaims)
	}
	return c
}

var (
	intro    = &idtoken.Claims{NodeIntroductionIdentityClaims: &idtoken.NodeIntroductionIdentityClaims{}}
	workload = &idtoken.Claims{WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{}}
)

func TestRegistration(t *testing.T) {
	old := *node
	old.Attributes = map[string]string{"nomad.version": "1.10.5"}
	unknown := *node
	unknown.Attributes = nil
	claims := func(c *idtoken.Claims) rbac.AuthenticatedIdentity {
		return rbac.AuthenticatedIdentity{Claims: c}
	}
	for name, c := range map[string]struct {
		node    *nomad.Node
		caller  rbac.AuthenticatedIdentity
		expired bool
		named   bool
		want    bool
	}{
		"expired":                   {node: node, expired: true, want: true},
		"expired, old version":      {node: &old, expired: true, want: true},
		"old version":               {node: &old, caller: rbac.AuthenticatedIdentity{ClientID: "n1"}},
		"unknown version":           {node: &unknown, caller: rbac.AuthenticatedIdentity{ClientID: "n1"}},
		"anonymous":                 {node: node, caller: rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{}}, want: true},
		"secret ID":                 {node: node, caller: rbac.AuthenticatedIdentity{ClientID: "n1"}, want: true},
		"introduction":              {node: node, caller: claims(intro), want: true},
		"fresh":                     {node: node, caller: claims(nodeClaims(time.Hour, nil))},
		"fresh, with client ID":     {node: node, caller: rbac.AuthenticatedIdentity{ClientID: "n1", Claims: nodeClaims(time.Hour, nil)}},
		"a third remains":           {node: node, caller: claims(nodeClaims(20*time.Minute, nil))},
		"less than a third remains": {node: node, caller: claims(nodeClaims(20*time.Minute-time.Second, nil)), want: true},
		"pool changed": {node: node,
			caller: claims(nodeClaims(time.Hour, func(n *idtoken.NodeIdentityClaims) { n.NodePool = "x" })), want: true},
		"class changed": {node: node,
			caller: claims(nodeClaims(time.Hour, func(n *idtoken.NodeIdentityClaims) { n.NodeClass = "x" })), want: true},
		"datacenter changed": {node: node,
			caller: claims(nodeClaims(time.Hour, func(n *idtoken.NodeIdentityClaims) { n.NodeDatacenter = "x" })), want: true},
		"names are bound, without a name": {node: node, caller: claims(nodeClaims(time.Hour, nil)), named: true, want: true},
		"names are bound, with a name": {node: node,
			caller: claims(nodeClaims(time.Hour, func(n *idtoken.NodeIdentityClaims) { n.AdmittedName = "a" })), named: true},
		"workload":                      {node: node, caller: claims(workload)},
		"nobody":                        {node: node},
		"first version with identities": {node: withVersion("1.11.0-beta.1"), caller: rbac.AuthenticatedIdentity{ClientID: "n1"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := identity.Registration{Node: c.node, Caller: &c.caller, Expired: c.expired, TTL: time.Hour, Named: c.named, Now: now}
			if got := r.Generates(); got != c.want {
				t.Errorf("Generates() = %t, want %t", got, c.want)
			}
		})
	}
}

func withVersion(v string) *nomad.Node {
	n := *node
	n.Attributes = map[string]string{"nomad.version": v}
	return &n
}

func TestHeartbeat(t *testing.T) {
	claims := func(c *idtoken.Claims) rbac.AuthenticatedIdentity {
		return rbac.AuthenticatedIdentity{Claims: c}
	}
	for name, c := range map[string]struct {
		node          *nomad.Node
		caller        rbac.AuthenticatedIdentity
		forced, named bool
		want, failure bool
	}{
		"old version, secret ID":          {node: withVersion("1.10.0"), caller: rbac.AuthenticatedIdentity{ClientID: "n1"}},
		"secret ID":                       {node: node, caller: rbac.AuthenticatedIdentity{ClientID: "n1"}, want: true},
		"fresh":                           {node: node, caller: claims(nodeClaims(time.Hour, nil))},
		"forced":                          {node: node, caller: claims(nodeClaims(time.Hour, nil)), forced: true, want: true},
		"late":                            {node: node, caller: claims(nodeClaims(19*time.Minute, nil)), want: true},
		"about to expire":                 {node: node, caller: claims(nodeClaims(9*time.Minute, nil)), want: true, failure: true},
		"pool changed":                    {node: node, caller: claims(nodeClaims(time.Hour, func(n *idtoken.NodeIdentityClaims) { n.NodePool = "x" }))},
		"names are bound, without a name": {node: node, caller: claims(nodeClaims(time.Hour, nil)), named: true, want: true},
		"names are bound, with a name": {node: node,
			caller: claims(nodeClaims(time.Hour, func(n *idtoken.NodeIdentityClaims) { n.AdmittedName = "a" })), named: true},
		"leader":         {node: node, caller: rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{}}},
		"leader, forced": {node: node, caller: rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{}}, forced: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := identity.Heartbeat{Node: c.node, Caller: &c.caller, Forced: c.forced, TTL: time.Hour, Named: c.named, Now: now}
			if got := h.Generates(); got != c.want {
				t.Errorf("Generates() = %t, want %t", got, c.want)
			}
			if got := h.FailureCounts(); got != c.failure {
				t.Errorf("FailureCounts() = %t, want %t", got, c.failure)
			}
		})
	}
}
