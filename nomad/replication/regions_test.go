package replication_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// regions are two federated regions: the second replicates from the first.
type regions struct {
	here, there *servertest.ACLServer
}

func twoRegions(t *testing.T) regions {
	t.Helper()
	here := servertest.StartMember(t, "s0", func(c *server.Config) { c.BootstrapExpect, c.Access.Enabled = 1, true })
	root := nomad.NewID()
	there := servertest.StartMember(t, "s0", func(c *server.Config) {
		c.BootstrapExpect, c.Region, c.Access.Enabled = 1, "far", true
		c.AuthoritativeRegion, c.ReplicationToken = "global", root
		c.StartJoin = []string{here.GossipAddr()}
	})
	servertest.Eventually(t, func() bool { return len(here.Members()) == 2 && len(there.Members()) == 2 })
	x := regions{servertest.NewACLServer(t, here.Server), servertest.NewACLServer(t, there.Server)}
	x.here.Root, x.there.Root, x.there.Region = root, root, "far"
	if first, err := x.there.Bootstrap(root); err != nil || first.SecretID != root {
		t.Fatalf("ACL bootstrap in the other region: %v", err)
	}
	return x
}

// Writes and deletions in the authoritative region, through either region, are replicated to
// the other.
func TestReplication_ACLsAndNamespaces(t *testing.T) {
	x := twoRegions(t)
	servertest.Eventually(t, func() bool {
		return x.there.Call(x.there.Root, "ACL.ListTokens", &message.ACLTokenListRequest{}, nil) == nil
	})

	x.there.CreatePolicy("p", "default", &rbac.JobACL{Namespace: "default"})
	role := x.there.CreateRole(&rbac.Role{Name: "r", Policies: servertest.PolicyLinks("p")})
	wide := servertest.ClientToken("p")
	wide.Global, wide.Roles = true, []*rbac.TokenRoleLink{{ID: role.ID}}
	wide = x.there.CreateToken(wide)
	x.there.Must("Namespace.UpsertNamespaces",
		&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "n", Description: "d",
			Privileged: nomad.PrivilegedExplicit}}}, nil)
	x.there.Must("NodePool.UpsertNodePools", &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "pool"}}}, nil)
	for region, local := range map[*servertest.ACLServer]string{x.here: "here", x.there: "there"} {
		own := servertest.ClientToken("p")
		own.Name = local
		region.CreateToken(own)
	}

	// The names of all objects in a region.
	state := func(g *servertest.ACLServer) string {
		var names []string
		for _, tok := range servertest.ReadRoot[message.ACLTokenListResponse](g, "ACL.ListTokens", &message.ACLTokenListRequest{}).Tokens {
			names = append(names, fmt.Sprintf("token %s %t %d", tok.Name, tok.Global, len(tok.Roles)))
		}
		for _, p := range servertest.ReadRoot[message.ACLPolicyListResponse](g, "ACL.ListPolicies", &message.ACLPolicyListRequest{}).Policies {
			names = append(names, "policy "+p.Name+" "+p.Description)
		}
		for _, r := range servertest.ReadRoot[message.ACLRolesListResponse](g, "ACL.ListRoles", &message.ACLRolesListRequest{}).ACLRoles {
			names = append(names, fmt.Sprintf("role %s %d", r.Name, len(r.Policies)))
		}
		for _, n := range servertest.ReadRoot[message.NamespaceListResponse](g, "Namespace.ListNamespaces",
			&message.NamespaceListRequest{}).Namespaces {
			names = append(names, "namespace "+n.Name)
		}
		for _, p := range servertest.ReadRoot[message.NodePoolListResponse](g, "NodePool.List", &message.NodePoolListRequest{}).NodePools {
			names = append(names, "pool "+p.Name)
		}
		slices.Sort(names)
		return fmt.Sprint(names)
	}
	becomes := func(g *servertest.ACLServer, want string) {
		t.Helper()
		var got string
		defer func() {
			if t.Failed() {
				t.Errorf("region %s has\n%s, want\n%s", g.Region, got, want)
			}
		}()
		servertest.Eventually(t, func() bool { got = state(g); return got == want })
	}
	const all = "[namespace default namespace n policy p  pool all pool default pool pool role r 1 token Bootstrap " +
		"Token true 0 token c true 1 token %s false 0]"
	becomes(x.here, fmt.Sprintf(all, "here"))
	becomes(x.there, fmt.Sprintf(all, "there"))
	if n := servertest.ReadRoot[message.SingleNamespaceResponse](x.there, "Namespace.GetNamespace",
		&message.NamespaceSpecificRequest{Name: "n"}).Namespace; n.Privileged != nomad.PrivilegedExplicit {
		t.Errorf("the copy of the namespace has privileged = %q", n.Privileged)
	}
	got := servertest.ReadRoot[message.SingleACLTokenResponse](x.there, "ACL.GetToken",
		&message.ACLTokenSpecificRequest{AccessorID: wide.AccessorID}).Token
	if got.SecretID != wide.SecretID || !got.CreateTime.Equal(wide.CreateTime) || !slices.Equal(got.Hash, wide.Hash) {
		t.Errorf("the copy is %+v, want %+v", got.Stub(), wide.Stub())
	}
	policy := servertest.ReadRoot[message.SingleACLPolicyResponse](x.there, "ACL.GetPolicy",
		&message.ACLPolicySpecificRequest{Name: "p"}).Policy
	if policy.Rules != `namespace "default" { policy = "read" }` || policy.JobACL == nil {
		t.Errorf("the copy is %+v", policy)
	}

	// Through the other region: updates and deletions.
	p := &rbac.Policy{Name: "p", Description: "new", Rules: `agent { policy = "read" }`}
	x.there.Must("ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{p}}, nil)
	x.there.Must("ACL.DeleteTokens", &message.ACLTokenDeleteRequest{AccessorIDs: []string{wide.AccessorID}}, nil)
	x.there.Must("ACL.DeleteRolesByID", &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: []string{role.ID}}, nil)
	x.there.Must("Namespace.DeleteNamespaces", &message.NamespaceDeleteRequest{Namespaces: []string{"n"}}, nil)
	x.there.Must("NodePool.DeleteNodePools", &message.NodePoolDeleteRequest{Names: []string{"pool"}}, nil)
	const less = "[namespace default policy p new pool all pool default token Bootstrap Token true 0 token %s false 0]"
	becomes(x.here, fmt.Sprintf(less, "here"))
	becomes(x.there, fmt.Sprintf(less, "there"))
	if err := x.there.Call(wide.SecretID, "ACL.ListPolicies", &message.ACLPolicyListRequest{}, nil); !errors.Is(err,
		apierror.ErrPermissionDenied) {
		t.Errorf("the deleted token: %v", err)
	}
	// A local token is not valid in the other region.
	own := x.here.CreateToken(&rbac.Token{Type: "management"})
	for g, may := range map[*servertest.ACLServer]bool{x.here: true, x.there: false} {
		if err := g.Call(own.SecretID, "ACL.ListTokens", &message.ACLTokenListRequest{}, nil); may != (err == nil) {
			t.Errorf("in region %s: %v", g.Region, err)
		}
	}
	// It cannot write replicated objects either.
	far := x.there.CreateToken(&rbac.Token{Type: "management"})
	if err := x.there.Call(far.SecretID, "ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{p}},
		nil); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a token of the other region writes a policy: %v", err)
	}
}

// A node cannot create a pool in a region that replicates.
func TestReplication_NodePools(t *testing.T) {
	x := twoRegions(t)
	node := servertest.MockNode()
	node.NodePool = "new"
	register := func(g *servertest.ACLServer) error {
		return g.Call("", "Node.Register", &message.NodeRegisterRequest{Node: node, CreateNodePool: true}, nil)
	}
	if err := register(x.there); !servertest.IsCoded(err, 400, `create it in the authoritative region "global" first`) {
		t.Errorf("in the other region: %v", err)
	}
	if err := register(x.here); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return register(x.there) == nil })
}
