package surface_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// conditional is a request to a method with a condition that only its handler can check.
type conditional struct {
	req              rpc.Request
	admitted, denied string // secrets of a caller that meets the condition, and of one that does not
	object           string // only the answer to the admitted caller contains it
}

// conditions returns a case for each method with a condition by its handler.
func conditions(t *testing.T) (*servertest.ACLServer, map[string]conditional) {
	t.Helper()
	in := twoNamespaces(t)
	g, other := in.ACLServer, servertest.Join(t, in.Server.RPCAddr())
	g.CreatePolicy("policy-1", "a", nil)
	g.CreatePolicy("policy-2", "a", nil)
	g.CreatePolicy("policy-job", "a", &rbac.JobACL{Namespace: "a", JobID: "j"})
	role := g.CreateRole(&rbac.Role{Name: "role-1", Policies: servertest.PolicyLinks("policy-1")})
	token := servertest.ClientToken("policy-1")
	token.Roles = []*rbac.TokenRoleLink{{ID: role.ID}}
	holder, second := g.CreateToken(token), g.CreateToken(servertest.ClientToken("policy-2"))
	a := in.alloc["a"]
	workload := a.SignedIdentities["t"]
	if workload == "" {
		t.Fatal("the allocation has no identity")
	}
	own := func(req rpc.Request, object string) conditional {
		return conditional{req: req, admitted: holder.SecretID, denied: second.SecretID, object: object}
	}
	return g, map[string]conditional{
		"Node.UpdateDrain": {req: &message.NodeUpdateDrainRequest{NodeID: in.node.Node.ID,
			DrainStrategy: &nomad.DrainStrategy{DrainSpec: nomad.DrainSpec{Deadline: time.Hour}}},
			admitted: in.node.JWT, denied: other.JWT},
		"Alloc.GetAlloc":         {req: &message.AllocSpecificRequest{AllocID: a.ID}, admitted: in.node.JWT, denied: other.JWT, object: a.ID},
		"ACL.ListPolicies":       own(&message.ACLPolicyListRequest{}, "policy-1"),
		"ACL.GetPolicy":          own(&message.ACLPolicySpecificRequest{Name: "policy-1"}, "policy-1"),
		"ACL.GetPolicies":        own(&message.ACLPolicySetRequest{Names: []string{"policy-1"}}, "policy-1"),
		"ACL.GetClaimPolicies":   {req: &message.GenericRequest{}, admitted: workload, denied: holder.SecretID, object: "policy-job"},
		"ACL.GetToken":           own(&message.ACLTokenSpecificRequest{AccessorID: holder.AccessorID}, holder.SecretID),
		"ACL.UpsertOneTimeToken": {req: &message.OneTimeTokenUpsertRequest{}, admitted: holder.SecretID, denied: workload},
		"ACL.ListRoles":          own(&message.ACLRolesListRequest{}, "role-1"),
		"ACL.GetRoleByID":        own(&message.ACLRoleByIDRequest{RoleID: role.ID}, "role-1"),
		"ACL.GetRoleByName":      own(&message.ACLRoleByNameRequest{RoleName: "role-1"}, "role-1"),
		"ACL.GetRolesByID":       own(&message.ACLRolesByIDRequest{ACLRoleIDs: []string{role.ID}}, "role-1"),
		"ACL.Explain": own(&message.ACLExplainRequest{AccessorID: holder.AccessorID, Kind: "namespace", Name: "a", Right: "read-job"},
			"read-job"),
	}
}

// byHandler reports whether a method has a condition that its handler checks.
func byHandler(m rpc.Method) bool {
	return slices.ContainsFunc(m.Check.Any, func(all []rpc.Need) bool {
		return slices.ContainsFunc(all, func(n rpc.Need) bool { return n.Scope == rpc.ByHandler })
	})
}

// Each row of the method table with a condition in words has a case, and its handler checks the condition.
func TestByHandler_Denies(t *testing.T) {
	g, cases := conditions(t)
	for _, m := range g.Server.Methods() {
		if !byHandler(m) {
			continue
		}
		c, ok := cases[m.Name]
		if delete(cases, m.Name); !ok {
			t.Errorf("%s: no case for the condition %q", m.Name, m.Check)
			continue
		}
		done := func(secret string) (bool, error) {
			out := m.NewResponse()
			if err := g.Call(secret, m.Name, c.req, out); err != nil {
				return false, err
			}
			text, err := codec.Encode(out)
			return strings.Contains(string(text), c.object), err
		}
		if ok, err := done(c.denied); ok || err != nil && !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s: the caller that does not meet %q is answered: %t, %v", m.Name, m.Check, ok, err)
		}
		if ok, err := done(c.admitted); !ok || err != nil {
			t.Errorf("%s: the caller that meets %q is answered: %t, %v", m.Name, m.Check, ok, err)
		}
	}
	for name := range cases {
		t.Errorf("%s: a case for a method without a condition by its handler", name)
	}
}
