package server_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// regions are two federated regions: the second replicates from the first.
type regions struct {
	here, there *guarded
}

func twoRegions(t *testing.T) regions {
	t.Helper()
	here := startMember(t, "s0", func(c *server.Config) { c.BootstrapExpect, c.Access.Enabled = 1, true })
	root := nomad.NewID()
	there := startMember(t, "s0", func(c *server.Config) {
		c.BootstrapExpect, c.Region, c.Access.Enabled = 1, "far", true
		c.AuthoritativeRegion, c.ReplicationToken = "global", root
		c.StartJoin = []string{here.gossipAddr()}
	})
	eventually(t, func() bool { return len(here.Members()) == 2 && len(there.Members()) == 2 })
	x := regions{&guarded{T: t, s: here.Server, root: root}, &guarded{T: t, s: there.Server, root: root, region: "far"}}
	if first, err := x.there.bootstrap(root); err != nil || first.SecretID != root {
		t.Fatalf("ACL bootstrap in the other region: %v", err)
	}
	return x
}

// fetch returns a region's answer to a read.
func fetch[T any](g *guarded, method string, req any) *T {
	g.Helper()
	out := new(T)
	g.must(method, req, out)
	return out
}

// Writes and deletions in the authoritative region, through either region, are replicated to
// the other.
func TestOneRegionFollowsAnother(t *testing.T) {
	x := twoRegions(t)
	eventually(t, func() bool {
		return x.there.call(x.there.root, "ACL.ListTokens", &acls.TokenListRequest{}, nil) == nil
	})

	x.there.policy("p", "default", &acls.JobACL{Namespace: "default"})
	role := x.there.role(&acls.Role{Name: "r", Policies: links("p")})
	wide := client("p")
	wide.Global, wide.Roles = true, []*acls.TokenRoleLink{{ID: role.ID}}
	wide = x.there.token(wide)
	x.there.must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "n", Description: "d"}}}, nil)
	x.there.must("NodePool.UpsertNodePools", &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "pool"}}}, nil)
	for region, local := range map[*guarded]string{x.here: "here", x.there: "there"} {
		own := client("p")
		own.Name = local
		region.token(own)
	}

	// The names of all objects in a region.
	state := func(g *guarded) string {
		var names []string
		for _, tok := range fetch[acls.TokenListResponse](g, "ACL.ListTokens", &acls.TokenListRequest{}).Tokens {
			names = append(names, fmt.Sprintf("token %s %t %d", tok.Name, tok.Global, len(tok.Roles)))
		}
		for _, p := range fetch[acls.PolicyListResponse](g, "ACL.ListPolicies", &acls.PolicyListRequest{}).Policies {
			names = append(names, "policy "+p.Name+" "+p.Description)
		}
		for _, r := range fetch[acls.RolesListResponse](g, "ACL.ListRoles", &acls.RolesListRequest{}).ACLRoles {
			names = append(names, fmt.Sprintf("role %s %d", r.Name, len(r.Policies)))
		}
		for _, n := range fetch[message.NamespaceListResponse](g, "Namespace.ListNamespaces", &message.NamespaceListRequest{}).Namespaces {
			names = append(names, "namespace "+n.Name)
		}
		for _, p := range fetch[message.NodePoolListResponse](g, "NodePool.List", &message.NodePoolListRequest{}).NodePools {
			names = append(names, "pool "+p.Name)
		}
		slices.Sort(names)
		return fmt.Sprint(names)
	}
	becomes := func(g *guarded, want string) {
		t.Helper()
		var got string
		defer func() {
			if t.Failed() {
				t.Errorf("region %s has\n%s, want\n%s", g.in(), got, want)
			}
		}()
		eventually(t, func() bool { got = state(g); return got == want })
	}
	const all = "[namespace default namespace n policy p  pool all pool default pool pool role r 1 token Bootstrap Token true 0 token c true 1 token %s false 0]"
	becomes(x.here, fmt.Sprintf(all, "here"))
	becomes(x.there, fmt.Sprintf(all, "there"))
	got := fetch[acls.SingleTokenResponse](x.there, "ACL.GetToken", &acls.TokenSpecificRequest{AccessorID: wide.AccessorID}).Token
	if got.SecretID != wide.SecretID || !got.CreateTime.Equal(wide.CreateTime) || !slices.Equal(got.Hash, wide.Hash) {
		t.Errorf("the copy is %+v, want %+v", got.Stub(), wide.Stub())
	}
	policy := fetch[acls.SinglePolicyResponse](x.there, "ACL.GetPolicy", &acls.PolicySpecificRequest{Name: "p"}).Policy
	if policy.Rules != `namespace "default" { policy = "read" }` || policy.JobACL == nil {
		t.Errorf("the copy is %+v", policy)
	}

	// Through the other region: updates and deletions.
	p := &acls.Policy{Name: "p", Description: "new", Rules: `agent { policy = "read" }`}
	x.there.must("ACL.UpsertPolicies", &acls.PolicyUpsertRequest{Policies: []*acls.Policy{p}}, nil)
	x.there.must("ACL.DeleteTokens", &acls.TokenDeleteRequest{AccessorIDs: []string{wide.AccessorID}}, nil)
	x.there.must("ACL.DeleteRolesByID", &acls.RolesDeleteByIDRequest{ACLRoleIDs: []string{role.ID}}, nil)
	x.there.must("Namespace.DeleteNamespaces", &message.NamespaceDeleteRequest{Namespaces: []string{"n"}}, nil)
	x.there.must("NodePool.DeleteNodePools", &message.NodePoolDeleteRequest{Names: []string{"pool"}}, nil)
	const less = "[namespace default policy p new pool all pool default token Bootstrap Token true 0 token %s false 0]"
	becomes(x.here, fmt.Sprintf(less, "here"))
	becomes(x.there, fmt.Sprintf(less, "there"))
	if err := x.there.call(wide.SecretID, "ACL.ListPolicies", &acls.PolicyListRequest{}, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("the deleted token: %v", err)
	}
	// A local token is not valid in the other region.
	own := x.here.token(&acls.Token{Type: "management"})
	for g, may := range map[*guarded]bool{x.here: true, x.there: false} {
		if err := g.call(own.SecretID, "ACL.ListTokens", &acls.TokenListRequest{}, nil); may != (err == nil) {
			t.Errorf("in region %s: %v", g.in(), err)
		}
	}
	// It cannot write replicated objects either.
	far := x.there.token(&acls.Token{Type: "management"})
	if err := x.there.call(far.SecretID, "ACL.UpsertPolicies", &acls.PolicyUpsertRequest{Policies: []*acls.Policy{p}}, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("a token of the other region writes a policy: %v", err)
	}
}

// A node cannot create a pool in a region that replicates.
func TestPoolsOfNodesComeFromTheAuthoritativeRegion(t *testing.T) {
	x := twoRegions(t)
	node := mockNode()
	node.NodePool = "new"
	register := func(g *guarded) error {
		return g.call("", "Node.Register", &message.NodeRegisterRequest{Node: node, CreateNodePool: true}, nil)
	}
	if err := register(x.there); !isCoded(err, 400, `create it in the authoritative region "global" first`) {
		t.Errorf("in the other region: %v", err)
	}
	if err := register(x.here); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return register(x.there) == nil })
}
