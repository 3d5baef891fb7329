package acl_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestPolicies_Invalid(t *testing.T) {
	g := servertest.StartACL(t, nil)
	good := `agent { policy = "read" }`
	for name, c := range map[string]struct {
		p    rbac.Policy
		want string
	}{
		"name":                  {rbac.Policy{Name: "a b", Rules: good}, "invalid policy name"},
		"no name":               {rbac.Policy{Rules: good}, "invalid policy name"},
		"long name":             {rbac.Policy{Name: strings.Repeat("a", 129), Rules: good}, "invalid policy name"},
		"long description":      {rbac.Policy{Name: "p", Description: strings.Repeat("a", 257), Rules: good}, "description"},
		"no rules":              {rbac.Policy{Name: "p"}, "the policy is empty"},
		"unknown key":           {rbac.Policy{Name: "p", Rules: "namespace \"x\" {\n  polic = \"read\"\n}"}, "line 2, column 3"},
		"two blocks":            {rbac.Policy{Name: "p", Rules: good + "\n" + good}, "line 2, column 1"},
		"job without namespace": {rbac.Policy{Name: "p", Rules: good, JobACL: &rbac.JobACL{JobID: "j"}}, "has no namespace"},
		"group without job":     {rbac.Policy{Name: "p", Rules: good, JobACL: &rbac.JobACL{Namespace: "default", Group: "g"}}, "has no job"},
		"task without group": {rbac.Policy{Name: "p", Rules: good, JobACL: &rbac.JobACL{Namespace: "default", JobID: "j", Task: "t"}},
			"has no group"},
	} {
		t.Run(name, func(t *testing.T) {
			err := g.Call(g.Root, "ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{&c.p}}, nil)
			if !servertest.IsCoded(err, 400, c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	twice := []*rbac.Policy{{Name: "p", Rules: good}, {Name: "p", Rules: good}}
	for what, list := range map[string][]*rbac.Policy{"none": nil, "one twice": twice} {
		if err := g.Call(g.Root, "ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: list}, nil); !servertest.IsCoded(err, 400,
			"policy") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := g.Call("", "ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: twice[:1]}, nil); !errors.Is(err,
		apierror.ErrPermissionDenied) {
		t.Errorf("without a token: %v", err)
	}
}

func TestPolicy_Rules(t *testing.T) {
	g := servertest.StartACL(t, nil)
	rules := `namespace "prod" {
  policy = "read"
  variables { path "a/*" { capabilities = ["write"] } }
}
node { policy = "write" }
node_pool "p" { capabilities = ["read"] }
operator { policy = "read" }`
	p := &rbac.Policy{Name: "p", Description: "d", Rules: rules, RulesJSON: &rbac.Rules{Raw: "of the caller"},
		JobACL: &rbac.JobACL{Namespace: "prod"}}
	g.Must("ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{p}}, nil)
	var out message.SingleACLPolicyResponse
	g.Must("ACL.GetPolicy", &message.ACLPolicySpecificRequest{Name: "p"}, &out)
	got := out.Policy
	if got == nil {
		t.Fatal("the policy does not exist")
	}
	servertest.Equal(t, "rules", got.Rules, rules)
	servertest.Equal(t, "description", got.Description, "d")
	servertest.Equal(t, "namespace of the job", got.JobACL.Namespace, "prod")
	if got.CreateIndex == 0 || len(got.Hash) == 0 {
		t.Errorf("index %d, %d bytes of a hash, want both", got.CreateIndex, len(got.Hash))
	}
	j := got.RulesJSON
	if j == nil || j.Raw != rules || len(j.Namespaces) != 1 || j.Namespaces[0].Policy != "read" ||
		!slices.Contains(j.Namespaces[0].Capabilities, "read-job") ||
		j.Namespaces[0].Variables.Paths[0].PathSpec != "a/*" || j.Node.Policy != "write" || j.NodePools[0].Capabilities[0] != "read" ||
		!slices.Contains(j.Operator.Capabilities, "license-read") || j.Agent != nil {
		t.Errorf("the rules are %+v", j)
	}
	var none message.SingleACLPolicyResponse
	g.Must("ACL.GetPolicy", &message.ACLPolicySpecificRequest{Name: "none"}, &none)
	if none.Policy != nil || none.Index == 0 {
		t.Errorf("a missing policy: %+v", none)
	}
}

// A caller can read its own policies and roles, and the anonymous policy.
func TestPolicies_OwnReadable(t *testing.T) {
	g := servertest.StartACL(t, nil)
	for _, name := range []string{"direct", "by-role", "foreign", "anonymous"} {
		g.CreatePolicy(name, "default", nil)
	}
	own := g.CreateRole(&rbac.Role{Name: "own", Policies: servertest.PolicyLinks("by-role")})
	other := g.CreateRole(&rbac.Role{Name: "other", Policies: servertest.PolicyLinks("foreign")})
	holder := servertest.ClientToken("direct")
	holder.Roles = []*rbac.TokenRoleLink{{Name: "own"}}
	holder = g.CreateToken(holder)

	names := func(secret string) (out []string) {
		var list message.ACLPolicyListResponse
		if err := g.Call(secret, "ACL.ListPolicies", &message.ACLPolicyListRequest{}, &list); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Policies {
			out = append(out, p.Name)
		}
		return out
	}
	for who, want := range map[string][]string{g.Root: {"anonymous", "by-role", "direct", "foreign"},
		holder.SecretID: {"anonymous", "by-role", "direct"}, "": {"anonymous"}} {
		if got := names(who); !slices.Equal(got, want) {
			t.Errorf("policies are %q, want %q", got, want)
		}
	}
	for name, may := range map[string]bool{"direct": true, "by-role": true, "anonymous": true, "foreign": false, "none": false} {
		one := g.Call(holder.SecretID, "ACL.GetPolicy", &message.ACLPolicySpecificRequest{Name: name}, nil)
		set := g.Call(holder.SecretID, "ACL.GetPolicies", &message.ACLPolicySetRequest{Names: []string{"direct", name}}, nil)
		for _, err := range []error{one, set} {
			if may != (err == nil) || !may && !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("policy %s: %v", name, err)
			}
		}
	}
	var roles message.ACLRolesListResponse
	if err := g.Call(holder.SecretID, "ACL.ListRoles", &message.ACLRolesListRequest{}, &roles); err != nil || len(roles.ACLRoles) != 1 ||
		roles.ACLRoles[0].ID != own.ID {
		t.Errorf("roles are %+v, %v", roles.ACLRoles, err)
	}
	for role, may := range map[*rbac.Role]bool{own: true, other: false, {ID: nomad.NewID(), Name: "none"}: false} {
		for method, req := range map[string]any{"ACL.GetRoleByID": &message.ACLRoleByIDRequest{RoleID: role.ID},
			"ACL.GetRoleByName": &message.ACLRoleByNameRequest{RoleName: role.Name},
			"ACL.GetRolesByID":  &message.ACLRolesByIDRequest{ACLRoleIDs: []string{role.ID}}} {
			if err := g.Call(holder.SecretID, method, req, nil); may != (err == nil) || !may && !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("%s of role %s: %v", method, role.Name, err)
			}
		}
	}
	for method, req := range map[string]any{"ACL.ListTokens": &message.ACLTokenListRequest{}, "ACL.GetTokens": &message.ACLTokenSetRequest{},
		"ACL.UpsertTokens":        &message.ACLTokenUpsertRequest{Tokens: []*rbac.Token{servertest.ClientToken("direct")}},
		"ACL.DeleteTokens":        &message.ACLTokenDeleteRequest{AccessorIDs: []string{holder.AccessorID}},
		"ACL.UpsertRoles":         &message.ACLRolesUpsertRequest{ACLRoles: []*rbac.Role{own}},
		"ACL.DeleteRolesByID":     &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: []string{own.ID}},
		"ACL.DeletePolicies":      &message.ACLPolicyDeleteRequest{Names: []string{"direct"}},
		"ACL.ExpireOneTimeTokens": &message.OneTimeTokenExpireRequest{},
		"ACL.GetClaimPolicies":    &message.GenericRequest{}} {
		if err := g.Call(holder.SecretID, method, req, nil); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("a client token calls %s: %v", method, err)
		}
	}
}

// A blocking query for the caller's policies returns when one of its roles changes.
func TestPolicies_BlockingList(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("a", "default", nil)
	g.CreatePolicy("b", "default", nil)
	r := g.CreateRole(&rbac.Role{Name: "r", Policies: servertest.PolicyLinks("a")})
	holder := g.CreateToken(&rbac.Token{Type: "client", Roles: []*rbac.TokenRoleLink{{ID: r.ID}}})
	var now message.ACLPolicyListResponse
	if err := g.Call(holder.SecretID, "ACL.ListPolicies", &message.ACLPolicyListRequest{}, &now); err != nil || len(now.Policies) != 1 {
		t.Fatalf("%d policies, %v", len(now.Policies), err)
	}
	answer := make(chan int, 1)
	go func() {
		var next message.ACLPolicyListResponse
		req := &message.ACLPolicyListRequest{QueryOptions: message.QueryOptions{MinQueryIndex: now.Index, MaxQueryTime: time.Minute}}
		if err := g.Call(holder.SecretID, "ACL.ListPolicies", req, &next); err != nil {
			t.Error(err)
		}
		answer <- len(next.Policies)
	}()
	r = codec.Copy(r)
	r.Policies = servertest.PolicyLinks("a", "b")
	g.CreateRole(r)
	select {
	case n := <-answer:
		if n != 2 {
			t.Errorf("it answers with %d policies", n)
		}
	case <-servertest.Context(t).Done():
		t.Error("the list does not return")
	}
}

func TestPolicies_OfWorkload(t *testing.T) {
	g := servertest.StartACL(t, nil)
	for name, job := range map[string]*rbac.JobACL{"ns": {Namespace: "default"}, "job": {Namespace: "default", JobID: "b"},
		"group": {Namespace: "default", JobID: "b", Group: "g"},
		"task":  {Namespace: "default", JobID: "b", Group: "g", Task: "t"}, "prefix": {Namespace: "default", JobID: "bb"},
		"shorter":     {Namespace: "default", JobID: ""},
		"other-group": {Namespace: "default", JobID: "b", Group: "gg"}, "other-task": {Namespace: "default", JobID: "b", Group: "g", Task: "tt"},
		"other-ns": {Namespace: "other", JobID: "b"}, "nobody": nil, "anonymous": nil} {
		g.CreatePolicy(name, "default", job)
	}
	n := joinAs(t, g)
	job := servertest.BatchJob("b", 1)
	if err := g.Call(g.Root, "Job.Register", &message.JobRegisterRequest{Job: job}, nil); err != nil {
		t.Fatal(err)
	}
	jwt := n.Allocs(1)[0].SignedIdentities["t"]
	var out message.ACLPolicySetResponse
	if err := g.Call(jwt, "ACL.GetClaimPolicies", &message.GenericRequest{}, &out); err != nil {
		t.Fatal(err)
	}
	want := []string{"group", "job", "ns", "shorter", "task"}
	if got := slices.Sorted(maps.Keys(out.Policies)); !slices.Equal(got, want) {
		t.Errorf("the policies are %q, want %q", got, want)
	}
	var list message.ACLPolicyListResponse
	if err := g.Call(jwt, "ACL.ListPolicies", &message.ACLPolicyListRequest{}, &list); err != nil || len(list.Policies) != len(want)+1 {
		t.Errorf("it lists %d policies, %v", len(list.Policies), err)
	}
	for method, req := range map[string]any{"ACL.ListRoles": &message.ACLRolesListRequest{},
		"ACL.GetRolesByID":       &message.ACLRolesByIDRequest{},
		"ACL.UpsertOneTimeToken": &message.OneTimeTokenUpsertRequest{}, "ACL.GetToken": &message.ACLTokenSpecificRequest{}} {
		for _, token := range []string{jwt, n.JWT} {
			if err := g.Call(token, method, req, nil); !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("%s: %v", method, err)
			}
		}
	}
	if err := g.Call(n.JWT, "ACL.GetClaimPolicies", &message.GenericRequest{}, nil); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a node has no policies of a workload: %v", err)
	}
}
