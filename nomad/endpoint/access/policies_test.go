package access_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestPolicies_Invalid(t *testing.T) {
	g := servertest.StartACL(t, nil)
	good := `agent { policy = "read" }`
	for name, c := range map[string]struct {
		p    acls.Policy
		want string
	}{
		"name":                  {acls.Policy{Name: "a b", Rules: good}, "invalid policy name"},
		"no name":               {acls.Policy{Rules: good}, "invalid policy name"},
		"long name":             {acls.Policy{Name: strings.Repeat("a", 129), Rules: good}, "invalid policy name"},
		"long description":      {acls.Policy{Name: "p", Description: strings.Repeat("a", 257), Rules: good}, "description"},
		"no rules":              {acls.Policy{Name: "p"}, "the policy is empty"},
		"unknown key":           {acls.Policy{Name: "p", Rules: "namespace \"x\" {\n  polic = \"read\"\n}"}, "line 2, column 3"},
		"two blocks":            {acls.Policy{Name: "p", Rules: good + "\n" + good}, "line 2, column 1"},
		"job without namespace": {acls.Policy{Name: "p", Rules: good, JobACL: &acls.JobACL{JobID: "j"}}, "has no namespace"},
		"group without job":     {acls.Policy{Name: "p", Rules: good, JobACL: &acls.JobACL{Namespace: "default", Group: "g"}}, "has no job"},
		"task without group":    {acls.Policy{Name: "p", Rules: good, JobACL: &acls.JobACL{Namespace: "default", JobID: "j", Task: "t"}}, "has no group"},
	} {
		t.Run(name, func(t *testing.T) {
			err := g.Call(g.Root, "ACL.UpsertPolicies", &acls.PolicyUpsertRequest{Policies: []*acls.Policy{&c.p}}, nil)
			if !servertest.IsCoded(err, 400, c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	twice := []*acls.Policy{{Name: "p", Rules: good}, {Name: "p", Rules: good}}
	for what, list := range map[string][]*acls.Policy{"none": nil, "one twice": twice} {
		if err := g.Call(g.Root, "ACL.UpsertPolicies", &acls.PolicyUpsertRequest{Policies: list}, nil); !servertest.IsCoded(err, 400, "policy") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := g.Call("", "ACL.UpsertPolicies", &acls.PolicyUpsertRequest{Policies: twice[:1]}, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
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
	p := &acls.Policy{Name: "p", Description: "d", Rules: rules, RulesJSON: &acls.Rules{Raw: "of the caller"}, JobACL: &acls.JobACL{Namespace: "prod"}}
	g.Must("ACL.UpsertPolicies", &acls.PolicyUpsertRequest{Policies: []*acls.Policy{p}}, nil)
	var out acls.SinglePolicyResponse
	g.Must("ACL.GetPolicy", &acls.PolicySpecificRequest{Name: "p"}, &out)
	got := out.Policy
	if got == nil || got.Rules != rules || got.Description != "d" || got.JobACL.Namespace != "prod" || got.CreateIndex == 0 || len(got.Hash) == 0 {
		t.Fatalf("the policy is %+v", got)
	}
	j := got.RulesJSON
	if j == nil || j.Raw != rules || len(j.Namespaces) != 1 || j.Namespaces[0].Policy != "read" || !slices.Contains(j.Namespaces[0].Capabilities, "read-job") ||
		j.Namespaces[0].Variables.Paths[0].PathSpec != "a/*" || j.Node.Policy != "write" || j.NodePools[0].Capabilities[0] != "read" ||
		!slices.Contains(j.Operator.Capabilities, "license-read") || j.Agent != nil {
		t.Errorf("the rules are %+v", j)
	}
	var none acls.SinglePolicyResponse
	g.Must("ACL.GetPolicy", &acls.PolicySpecificRequest{Name: "none"}, &none)
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
	own := g.CreateRole(&acls.Role{Name: "own", Policies: servertest.PolicyLinks("by-role")})
	other := g.CreateRole(&acls.Role{Name: "other", Policies: servertest.PolicyLinks("foreign")})
	holder := servertest.ClientToken("direct")
	holder.Roles = []*acls.TokenRoleLink{{Name: "own"}}
	holder = g.CreateToken(holder)

	names := func(secret string) (out []string) {
		var list acls.PolicyListResponse
		if err := g.Call(secret, "ACL.ListPolicies", &acls.PolicyListRequest{}, &list); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Policies {
			out = append(out, p.Name)
		}
		return out
	}
	for who, want := range map[string][]string{g.Root: {"anonymous", "by-role", "direct", "foreign"}, holder.SecretID: {"anonymous", "by-role", "direct"}, "": {"anonymous"}} {
		if got := names(who); !slices.Equal(got, want) {
			t.Errorf("policies are %q, want %q", got, want)
		}
	}
	for name, may := range map[string]bool{"direct": true, "by-role": true, "anonymous": true, "foreign": false, "none": false} {
		one := g.Call(holder.SecretID, "ACL.GetPolicy", &acls.PolicySpecificRequest{Name: name}, nil)
		set := g.Call(holder.SecretID, "ACL.GetPolicies", &acls.PolicySetRequest{Names: []string{"direct", name}}, nil)
		for _, err := range []error{one, set} {
			if may != (err == nil) || !may && !errors.Is(err, nomad.ErrPermissionDenied) {
				t.Errorf("policy %s: %v", name, err)
			}
		}
	}
	var roles acls.RolesListResponse
	if err := g.Call(holder.SecretID, "ACL.ListRoles", &acls.RolesListRequest{}, &roles); err != nil || len(roles.ACLRoles) != 1 || roles.ACLRoles[0].ID != own.ID {
		t.Errorf("roles are %+v, %v", roles.ACLRoles, err)
	}
	for role, may := range map[*acls.Role]bool{own: true, other: false, {ID: nomad.NewID(), Name: "none"}: false} {
		for method, req := range map[string]any{"ACL.GetRoleByID": &acls.RoleByIDRequest{RoleID: role.ID},
			"ACL.GetRoleByName": &acls.RoleByNameRequest{RoleName: role.Name}, "ACL.GetRolesByID": &acls.RolesByIDRequest{ACLRoleIDs: []string{role.ID}}} {
			if err := g.Call(holder.SecretID, method, req, nil); may != (err == nil) || !may && !errors.Is(err, nomad.ErrPermissionDenied) {
				t.Errorf("%s of role %s: %v", method, role.Name, err)
			}
		}
	}
	for method, req := range map[string]any{"ACL.ListTokens": &acls.TokenListRequest{}, "ACL.GetTokens": &acls.TokenSetRequest{},
		"ACL.UpsertTokens": &acls.TokenUpsertRequest{Tokens: []*acls.Token{servertest.ClientToken("direct")}}, "ACL.DeleteTokens": &acls.TokenDeleteRequest{AccessorIDs: []string{holder.AccessorID}},
		"ACL.UpsertRoles": &acls.RolesUpsertRequest{ACLRoles: []*acls.Role{own}}, "ACL.DeleteRolesByID": &acls.RolesDeleteByIDRequest{ACLRoleIDs: []string{own.ID}},
		"ACL.DeletePolicies": &acls.PolicyDeleteRequest{Names: []string{"direct"}}, "ACL.ExpireOneTimeTokens": &acls.OneTimeTokenExpireRequest{},
		"ACL.GetClaimPolicies": &message.GenericRequest{}} {
		if err := g.Call(holder.SecretID, method, req, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
			t.Errorf("a client token calls %s: %v", method, err)
		}
	}
}

// A blocking query for the caller's policies returns when one of its roles changes.
func TestPolicies_BlockingList(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("a", "default", nil)
	g.CreatePolicy("b", "default", nil)
	r := g.CreateRole(&acls.Role{Name: "r", Policies: servertest.PolicyLinks("a")})
	holder := g.CreateToken(&acls.Token{Type: "client", Roles: []*acls.TokenRoleLink{{ID: r.ID}}})
	var now acls.PolicyListResponse
	if err := g.Call(holder.SecretID, "ACL.ListPolicies", &acls.PolicyListRequest{}, &now); err != nil || len(now.Policies) != 1 {
		t.Fatalf("%d policies, %v", len(now.Policies), err)
	}
	answer := make(chan int, 1)
	go func() {
		var next acls.PolicyListResponse
		req := &acls.PolicyListRequest{QueryOptions: message.QueryOptions{MinQueryIndex: now.Index, MaxQueryTime: time.Minute}}
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
	for name, job := range map[string]*acls.JobACL{"ns": {Namespace: "default"}, "job": {Namespace: "default", JobID: "b"}, "group": {Namespace: "default", JobID: "b", Group: "g"},
		"task": {Namespace: "default", JobID: "b", Group: "g", Task: "t"}, "prefix": {Namespace: "default", JobID: "bb"}, "shorter": {Namespace: "default", JobID: ""},
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
	var out acls.PolicySetResponse
	if err := g.Call(jwt, "ACL.GetClaimPolicies", &message.GenericRequest{}, &out); err != nil {
		t.Fatal(err)
	}
	want := []string{"group", "job", "ns", "shorter", "task"}
	if got := slices.Sorted(maps.Keys(out.Policies)); !slices.Equal(got, want) {
		t.Errorf("the policies are %q, want %q", got, want)
	}
	var list acls.PolicyListResponse
	if err := g.Call(jwt, "ACL.ListPolicies", &acls.PolicyListRequest{}, &list); err != nil || len(list.Policies) != len(want)+1 {
		t.Errorf("it lists %d policies, %v", len(list.Policies), err)
	}
	for method, req := range map[string]any{"ACL.ListRoles": &acls.RolesListRequest{}, "ACL.GetRolesByID": &acls.RolesByIDRequest{},
		"ACL.UpsertOneTimeToken": &acls.OneTimeTokenUpsertRequest{}, "ACL.GetToken": &acls.TokenSpecificRequest{}} {
		for _, token := range []string{jwt, n.JWT} {
			if err := g.Call(token, method, req, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
				t.Errorf("%s: %v", method, err)
			}
		}
	}
	if err := g.Call(n.JWT, "ACL.GetClaimPolicies", &message.GenericRequest{}, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("a node has no policies of a workload: %v", err)
	}
}
