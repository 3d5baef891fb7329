package server_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestTheFirstTokenIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	s, _ := servertest.Start(t, func(c *server.Config) { c.Access.Enabled, c.DataDir = true, dir })
	g := servertest.NewACLServer(t, s)
	if _, err := g.Bootstrap("letmein"); !servertest.IsCoded(err, 400, "invalid acl token") {
		t.Errorf("a secret that is not a UUID: %v", err)
	}
	secret := nomad.NewID()
	first, err := g.Bootstrap(secret)
	if err != nil || first.SecretID != secret || !first.Management() || !first.Global || first.Name != "Bootstrap Token" || len(first.Hash) == 0 {
		t.Fatalf("the first token is %+v, %v", first.Stub(), err)
	}
	again := fmt.Sprintf("ACL bootstrap already done (reset index: %d)", first.CreateIndex)
	if _, err = g.Bootstrap(""); !servertest.IsCoded(err, 400, again) {
		t.Errorf("the second time: %v, want %s", err, again)
	}
	file := filepath.Join(dir, "server", "acl-bootstrap-reset")
	for text, want := range map[string]string{
		"not a number": "does not contain a decimal index",
		"7\n":          fmt.Sprintf("Invalid bootstrap reset index (specified 7, reset index: %d)", first.CreateIndex),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err = g.Bootstrap(""); !servertest.IsCoded(err, 400, want) {
			t.Errorf("with the file %q: %v, want %s", text, err, want)
		}
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, " %d\n", first.CreateIndex), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := g.Bootstrap("")
	if err != nil || second.AccessorID == first.AccessorID {
		t.Fatalf("with the index in the file: %v", err)
	}
	if _, err = g.Bootstrap(""); !servertest.IsCoded(err, 400, "Invalid bootstrap reset index") {
		t.Errorf("the file works twice: %v", err)
	}
	var list acls.TokenListResponse
	if err := g.Call(second.SecretID, "ACL.ListTokens", &acls.TokenListRequest{}, &list); err != nil || len(list.Tokens) != 2 {
		t.Errorf("the second token sees %d tokens, %v", len(list.Tokens), err)
	}
}

func TestManyWantToBeTheFirst(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Access.Enabled = true })
	g := servertest.NewACLServer(t, s)
	if won := race(40, func() error { _, err := g.Bootstrap(""); return err }, func(err error) bool { return servertest.IsCoded(err, 400, "ACL bootstrap already done") }, t); won != 1 {
		t.Errorf("%d initial tokens were created", won)
	}
}

// race calls fn concurrently and counts the successes. Every failure must be an expected one.
func race(n int, fn func() error, expected func(error) bool, t *testing.T) (won int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			err := fn()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !expected(err):
				t.Errorf("unexpected: %v", err)
			}
		})
	}
	wg.Wait()
	return won
}

func TestPoliciesThatAreRefused(t *testing.T) {
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

func TestPolicyIsShownWithItsRules(t *testing.T) {
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
func TestCallersReadOwnPolicies(t *testing.T) {
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

func TestTokensThatAreRefused(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	is := g.CreateToken(servertest.ClientToken("p"))
	soon, past, far := time.Now().Add(30*time.Second), time.Now().Add(-time.Hour), time.Now().Add(48*time.Hour)
	change := func(edit func(*acls.Token)) *acls.Token {
		t := codec.Copy(is)
		edit(t)
		return t
	}
	for name, c := range map[string]struct {
		t    *acls.Token
		want string
	}{
		"no type":                  {&acls.Token{Policies: []string{"p"}}, "token type"},
		"management with a policy": {&acls.Token{Type: "management", Policies: []string{"p"}}, "cannot have policies or roles"},
		"client without":           {servertest.ClientToken(), "at least one policy or role"},
		"unknown role":             {&acls.Token{Type: "client", Roles: []*acls.TokenRoleLink{{Name: "none"}}}, "does not exist: none"},
		"empty role":               {&acls.Token{Type: "client", Roles: []*acls.TokenRoleLink{{}}}, "does not exist"},
		"long name":                {&acls.Token{Type: "management", Name: strings.Repeat("a", 257)}, "name"},
		"accessor":                 {&acls.Token{Type: "management", AccessorID: "me"}, "must be a UUID"},
		"secret":                   {&acls.Token{Type: "management", SecretID: "me"}, "must be a UUID"},
		"anonymous":                {&acls.Token{Type: "management", AccessorID: "anonymous"}, "anonymous"},
		"too short":                {&acls.Token{Type: "management", ExpirationTTL: time.Second}, "token_min_expiration_ttl"},
		"too long":                 {&acls.Token{Type: "management", ExpirationTTL: 25 * time.Hour}, "token_max_expiration_ttl"},
		"negative":                 {&acls.Token{Type: "management", ExpirationTTL: -time.Hour}, "negative"},
		"ends too soon":            {&acls.Token{Type: "management", ExpirationTime: &soon}, "token_min_expiration_ttl"},
		"ends too late":            {&acls.Token{Type: "management", ExpirationTime: &far}, "token_max_expiration_ttl"},
		"has ended":                {&acls.Token{Type: "management", ExpirationTime: &past}, "past"},
		"TTL and end":              {&acls.Token{Type: "management", ExpirationTTL: time.Hour, ExpirationTime: &far}, "both an expiration TTL"},
		"the secret of another":    {&acls.Token{Type: "management", SecretID: is.SecretID}, "have the same secret"},
		"another type":             {change(func(t *acls.Token) { t.Type, t.Policies = "management", nil }), "type of a token cannot be changed"},
		"another secret":           {change(func(t *acls.Token) { t.SecretID = nomad.NewID() }), "secret of a token cannot be changed"},
		"another end":              {change(func(t *acls.Token) { t.ExpirationTTL = time.Hour }), "cannot be changed"},
		"everywhere":               {change(func(t *acls.Token) { t.Global = true }), "global cannot be changed"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := g.CreateTokens(c.t)
			if !servertest.IsCoded(err, 400, c.want) || len(out) != 0 {
				t.Errorf("%v, want %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), is.SecretID) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
	if _, err := g.CreateTokens(&acls.Token{Type: "management"}, &acls.Token{Type: "management", Global: true}); !servertest.IsCoded(err, 400, "mixed global") {
		t.Errorf("global and others: %v", err)
	}
	if _, err := g.CreateTokens(is, is); !servertest.IsCoded(err, 400, "duplicate token") {
		t.Errorf("one twice: %v", err)
	}
}

func TestTokensAreMadeAndChanged(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	r := g.CreateRole(&acls.Role{Name: "r", Policies: servertest.PolicyLinks("p")})
	chosen := &acls.Token{AccessorID: nomad.NewID(), SecretID: nomad.NewID(), Type: "client", ExpirationTTL: time.Hour,
		Roles: []*acls.TokenRoleLink{{Name: "r"}, {ID: r.ID}}}
	made := g.CreateToken(chosen)
	if made.AccessorID != chosen.AccessorID || made.SecretID != chosen.SecretID || !made.ExpirationTime.Equal(made.CreateTime.Add(time.Hour)) ||
		len(made.Roles) != 1 || *made.Roles[0] != (acls.TokenRoleLink{ID: r.ID, Name: "r"}) {
		t.Fatalf("created %+v", made.Stub())
	}
	next := g.CreateToken(&acls.Token{AccessorID: made.AccessorID, Name: "new", Policies: []string{"p", "later"}})
	if next.SecretID != made.SecretID || next.Type != "client" || next.Name != "new" || next.CreateIndex != made.CreateIndex || next.ModifyIndex <= made.ModifyIndex ||
		!next.ExpirationTime.Equal(*made.ExpirationTime) || !next.CreateTime.Equal(made.CreateTime) || slices.Equal(next.Hash, made.Hash) || len(next.Roles) != 0 {
		t.Errorf("updated to %+v", next.Stub())
	}
	var own, other acls.SingleTokenResponse
	if err := g.Call(next.SecretID, "ACL.GetToken", &acls.TokenSpecificRequest{AccessorID: next.AccessorID}, &own); err != nil || own.Token.SecretID != next.SecretID {
		t.Errorf("a token reads itself: %v", err)
	}
	if err := g.Call(g.Root, "ACL.GetToken", &acls.TokenSpecificRequest{AccessorID: nomad.NewID()}, &other); err != nil || other.Token != nil {
		t.Errorf("a missing token: %+v, %v", other.Token, err)
	}
	for _, secret := range []string{"", next.SecretID} {
		if err := g.Call(secret, "ACL.GetToken", &acls.TokenSpecificRequest{AccessorID: nomad.NewID()}, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
			t.Errorf("another caller's token: %v", err)
		}
	}
	for secret, want := range map[string]string{next.SecretID: next.AccessorID, nomad.NewID(): "", "": "", next.AccessorID: ""} {
		var out acls.ResolveTokenResponse
		if err := g.Call("", "ACL.ResolveToken", &acls.ResolveTokenRequest{SecretID: secret}, &out); err != nil || (out.Token == nil) != (want == "") || out.Token != nil && out.Token.AccessorID != want {
			t.Errorf("a secret is of %v, %v, want %q", out.Token, err, want)
		}
	}
	g.Must("ACL.DeleteRolesByID", &acls.RolesDeleteByIDRequest{ACLRoleIDs: []string{r.ID}}, nil)
	if err := g.Call(g.Root, "ACL.DeleteRolesByID", &acls.RolesDeleteByIDRequest{ACLRoleIDs: []string{r.ID}}, nil); !servertest.IsCoded(err, 404, "ACL role not found") {
		t.Errorf("a deleted role: %v", err)
	}
	g.Must("ACL.DeleteTokens", &acls.TokenDeleteRequest{AccessorIDs: []string{next.AccessorID}}, nil)
	if err := g.Call(next.SecretID, "ACL.ListPolicies", &acls.PolicyListRequest{}, nil); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("a deleted token: %v", err)
	}
	for accessor, code := range map[string]int{next.AccessorID: 404, "anonymous": 400} {
		if err := g.Call(g.Root, "ACL.DeleteTokens", &acls.TokenDeleteRequest{AccessorIDs: []string{accessor}}, nil); !servertest.IsCoded(err, code, "") {
			t.Errorf("deleting %s: %v", accessor, err)
		}
	}
}

// Lists support pages and filters, and contain no secrets.
func TestListsOfTokens(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	var made []string
	for i := range 5 {
		token := servertest.ClientToken("p")
		token.Name, token.Global = fmt.Sprint("token ", i), i == 4
		made = append(made, g.CreateToken(token).AccessorID)
	}
	var got []string
	q := message.QueryOptions{PerPage: 2}
	for {
		var page acls.TokenListResponse
		g.Must("ACL.ListTokens", &acls.TokenListRequest{QueryOptions: q}, &page)
		for _, stub := range page.Tokens {
			got = append(got, stub.AccessorID)
		}
		if q.NextToken = page.NextToken; q.NextToken == "" {
			break
		}
	}
	if !slices.Equal(got[1:], made) {
		t.Errorf("the pages hold %q, want the first token and %q", got, made)
	}
	for name, c := range map[string]struct {
		req  acls.TokenListRequest
		want int
	}{
		"filter":         {acls.TokenListRequest{QueryOptions: message.QueryOptions{Filter: `Name == "token 3"`}}, 1},
		"secret":         {acls.TokenListRequest{QueryOptions: message.QueryOptions{Filter: `SecretID matches "."`}}, 0},
		"prefix":         {acls.TokenListRequest{QueryOptions: message.QueryOptions{Prefix: made[0][:20]}}, 1},
		"global":         {acls.TokenListRequest{GlobalOnly: true}, 2},
		"global, prefix": {acls.TokenListRequest{GlobalOnly: true, QueryOptions: message.QueryOptions{Prefix: made[4][:20]}}, 1},
	} {
		var list acls.TokenListResponse
		if err := g.Call(g.Root, "ACL.ListTokens", &c.req, &list); len(list.Tokens) != c.want {
			t.Errorf("%s: %d tokens, %v, want %d", name, len(list.Tokens), err, c.want)
		}
	}
}

// A blocking query for the caller's policies returns when one of its roles changes.
func TestBlockingPolicyList(t *testing.T) {
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

func TestRolesThatAreRefused(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	g.CreateRole(&acls.Role{Name: "r", Policies: servertest.PolicyLinks("p", "p")})
	for name, c := range map[string]struct {
		r    acls.Role
		code int
		want string
	}{
		"name":           {acls.Role{Name: "a b", Policies: servertest.PolicyLinks("p")}, 400, "invalid role name"},
		"no policy":      {acls.Role{Name: "q"}, 400, "at least one policy"},
		"missing policy": {acls.Role{Name: "q", Policies: servertest.PolicyLinks("none")}, 400, `"none" does not exist`},
		"name of other":  {acls.Role{Name: "r", Policies: servertest.PolicyLinks("p")}, 400, "has this name"},
		"unknown ID":     {acls.Role{ID: nomad.NewID(), Name: "q", Policies: servertest.PolicyLinks("p")}, 404, "ACL role not found"},
	} {
		t.Run(name, func(t *testing.T) {
			req := &acls.RolesUpsertRequest{ACLRoles: []*acls.Role{&c.r}, AllowMissingPolicies: true}
			if err := g.Call(g.Root, "ACL.UpsertRoles", req, nil); !servertest.IsCoded(err, c.code, c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// Of many callers with the secret of a one-time token, one gets the token.
func TestOneTimeTokenIsExchangedOnce(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	own := g.CreateToken(servertest.ClientToken("p"))
	upsert := func(secret string) (*acls.OneTimeToken, error) {
		var out acls.OneTimeTokenUpsertResponse
		err := g.Call(secret, "ACL.UpsertOneTimeToken", &acls.OneTimeTokenUpsertRequest{}, &out)
		return out.OneTimeToken, err
	}
	if _, err := upsert(""); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("without a token: %v", err)
	}
	before, err := upsert(own.SecretID)
	if err != nil {
		t.Fatal(err)
	}
	once, err := upsert(own.SecretID)
	if err != nil || once.AccessorID != own.AccessorID || time.Until(once.ExpiresAt) > acls.OneTimeTokenTTL {
		t.Fatalf("%+v, %v", once, err)
	}
	exchange := func(secret string) error {
		var out acls.OneTimeTokenExchangeResponse
		err := g.Call("", "ACL.ExchangeOneTimeToken", &acls.OneTimeTokenExchangeRequest{OneTimeSecretID: secret}, &out)
		if err == nil && out.Token.SecretID != own.SecretID {
			t.Errorf("another token: %v", out.Token)
		}
		return err
	}
	denied := func(err error) bool { return errors.Is(err, nomad.ErrPermissionDenied) }
	for what, secret := range map[string]string{"an earlier one": before.OneTimeSecretID, "none": "", "an unknown one": nomad.NewID(), "the accessor": own.AccessorID} {
		if err := exchange(secret); !denied(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if won := race(200, func() error { return exchange(once.OneTimeSecretID) }, denied, t); won != 1 {
		t.Errorf("%d callers got the token", won)
	}
	third, err := upsert(own.SecretID)
	if err != nil {
		t.Fatal(err)
	}
	g.Must("ACL.ExpireOneTimeTokens", &acls.OneTimeTokenExpireRequest{Timestamp: time.Now().Add(time.Hour)}, nil)
	g.Must("ACL.DeleteTokens", &acls.TokenDeleteRequest{AccessorIDs: []string{own.AccessorID}}, nil)
	if err := exchange(third.OneTimeSecretID); !denied(err) {
		t.Errorf("the token was deleted: %v", err)
	}
}

func TestWorkloadIsToldItsPolicies(t *testing.T) {
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

// joinAs registers a node at a server with ACLs.
func joinAs(t *testing.T, g *servertest.ACLServer) *servertest.FakeNode {
	t.Helper()
	return servertest.Join(t, g.Server.RPCAddr())
}

func TestExpiredTokensAreForgotten(t *testing.T) {
	g := servertest.StartACL(t, func(c *server.Config) {
		c.Access.TokenMinTTL, c.ACLTokenGCThreshold = time.Millisecond, time.Millisecond
	})
	for _, global := range []bool{true, false} {
		short := g.CreateToken(&acls.Token{Type: "management", ExpirationTTL: 20 * time.Millisecond, Global: global})
		servertest.Eventually(t, func() bool { return short.HasExpired(time.Now()) })
		if err := g.Call(short.SecretID, "ACL.ListTokens", &acls.TokenListRequest{}, nil); !errors.Is(err, nomad.ErrPermissionDenied) && !errors.Is(err, nomad.ErrTokenExpired) {
			t.Errorf("an expired token: %v", err)
		}
	}
	count := func() int {
		var list acls.TokenListResponse
		g.Must("ACL.ListTokens", &acls.TokenListRequest{}, &list)
		return len(list.Tokens)
	}
	if n := count(); n != 3 {
		t.Fatalf("%d tokens before", n)
	}
	g.Must("System.GarbageCollect", &message.GenericRequest{}, nil)
	servertest.Eventually(t, func() bool { return count() == 1 })
}

func TestNoAccessControl(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	g := servertest.NewACLServer(t, s)
	asked := 0
	for _, m := range s.Methods() {
		service, name, _ := strings.Cut(m.Name, ".")
		if service != "ACL" || slices.Contains([]string{"WhoAmI", "CreateClientIntroductionToken"}, name) {
			continue
		}
		err := g.Call("", m.Name, m.NewRequest(), nil)
		if strings.Contains(fmt.Sprint(err), "is of a feature") || strings.Contains(fmt.Sprint(err), "not available yet") {
			continue // not registered yet
		}
		if asked++; !servertest.IsCoded(err, 400, "ACL support disabled") {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if asked < 22 {
		t.Errorf("only %d methods were called", asked)
	}
}

// Core evaluations carry the leader's token to the servers that process them.
func TestFollowersCollectForTheLeader(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		c.Access.Enabled, c.Access.TokenMinTTL = true, time.Millisecond
		if c.Name == "s0" {
			c.Workers = -1
		}
	})
	g := servertest.NewACLServer(t, all[0].Server)
	first, err := g.Bootstrap("")
	if err != nil {
		t.Fatal(err)
	}
	g.Root = first.SecretID
	id := all[0].Self().Tags["id"]
	servertest.Eventually(t, func() bool {
		_, now := all[0].Leader()
		if now != id {
			g.Call(g.Root, "Operator.TransferLeadershipToPeer", &message.RaftPeerRequest{RaftIDAddress: nomad.RaftIDAddress{ID: id}}, nil) //nolint:errcheck // it is repeated
		}
		return now == id
	})
	short := g.CreateToken(&acls.Token{Type: "management", ExpirationTTL: 20 * time.Millisecond})
	servertest.Eventually(t, func() bool { return short.HasExpired(time.Now()) })
	servertest.Eventually(t, func() bool {
		g.Must("System.GarbageCollect", &message.GenericRequest{}, nil) // the work of the previous leader is lost
		return servertest.ReadRoot[acls.SingleTokenResponse](g, "ACL.GetToken", &acls.TokenSpecificRequest{AccessorID: short.AccessorID}).Token == nil
	})
}
