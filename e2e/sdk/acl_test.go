package sdk_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Every SDK method for policies works.
func TestSDKPolicies(t *testing.T) {
	g := harness.NewACLClient(t)
	g.CreatePolicy(t, "readers", `namespace "default" { policy = "read" }`, nil)
	g.CreatePolicy(t, "web-secrets", `namespace "default" { variables { path "shared/*" { capabilities = ["read"] } } }`,
		&sdk.JobACL{Namespace: "default", JobID: "web"})
	p, _, err := g.ACLPolicies().Info("web-secrets", nil)
	if err != nil || p.Description != "of web-secrets" || p.JobACL == nil || p.JobACL.JobID != "web" || p.CreateIndex == 0 ||
		!strings.Contains(p.Rules, "shared/*") {
		t.Errorf("Info() = %+v, %v", p, err)
	}
	_, err = g.ACLPolicies().Upsert(&sdk.ACLPolicy{Name: "bad",
		Rules: "namespace \"default\" {\n  polcy = \"read\"\n}\nnode {\n  policy = \"reed\"\n}"}, nil)
	harness.WantError(t, "Upsert() of bad rules", err, "400", "line 2, column 3")
	harness.WantError(t, "Upsert() of bad rules", err, "400", "line 5, column")
	_, _, err = g.ACLPolicies().Info("none", nil)
	harness.WantError(t, "Info() of none", err, "404", "ACL policy not found")

	all, meta, err := g.ACLPolicies().List(&sdk.QueryOptions{Prefix: "re"})
	if err != nil || len(all) != 1 || all[0].Name != "readers" || meta.LastIndex == 0 {
		t.Errorf("List() = %+v, %v", all, err)
	}
	own, token := g.As(t, "readers")
	if all, _, err := own.ACLPolicies().List(nil); err != nil || len(all) != 1 || all[0].Name != "readers" {
		t.Errorf("List() of its own = %+v, %v", all, err)
	}
	if all, _, err := own.ACLPolicies().Self(nil); err != nil || len(all) != 1 || all[0].Description != "of readers" {
		t.Errorf("Self() = %+v, %v", all, err)
	}
	_, _, err = own.ACLPolicies().Info("web-secrets", nil)
	harness.WantError(t, "Info() of another's", err, "403", "Permission denied")
	_, err = own.ACLPolicies().Upsert(&sdk.ACLPolicy{Name: "mine", Rules: `node { policy = "write" }`}, nil)
	harness.WantError(t, "Upsert() without management", err, "403", "management")
	_, err = own.ACLPolicies().Delete("readers", nil)
	harness.WantError(t, "Delete() without management", err, "403", "management")

	// Deleted objects are removed everywhere, and a blocking query returns.
	woken := make(chan error, 1)
	go func() {
		_, m, err := g.ACLPolicies().List(&sdk.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute})
		if err == nil && m.LastIndex <= meta.LastIndex {
			err = io.ErrNoProgress
		}
		woken <- err
	}()
	if _, err := g.ACLPolicies().Delete("readers", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; err != nil {
		t.Errorf("a query that waits: %v", err)
	}
	_, _, err = own.Jobs().List(nil)
	harness.WantError(t, "jobs of token "+token.AccessorID, err, "403", "list-jobs")
}

// Every SDK method for tokens works.
func TestSDKTokens(t *testing.T) {
	g := harness.NewACLClient(t)
	_, _, err := harness.SDKClient(t, g.Agent, "").ACLTokens().BootstrapOpts("", nil)
	harness.WantError(t, "a second bootstrap", err, "400", "reset index")
	g.CreatePolicy(t, "readers", `namespace "default" { policy = "read" }`, nil)
	role, _, err := g.ACLRoles().Create(&sdk.ACLRole{Name: "auditors", Policies: []*sdk.ACLRolePolicyLink{{Name: "readers"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := g.ACLTokens().Create(&sdk.ACLToken{Name: "a", Type: "client", Roles: []*sdk.ACLTokenRoleLink{{Name: "auditors"}},
		ExpirationTTL: time.Hour}, nil)
	if err != nil || made.SecretID == "" || len(made.Roles) != 1 || made.Roles[0].ID != role.ID || made.ExpirationTTL != time.Hour ||
		made.ExpirationTime.Sub(made.CreateTime) != time.Hour {
		t.Fatalf("Create() = %+v, %v", made, err)
	}
	own := harness.SDKClient(t, g.Agent, made.SecretID)
	if self, _, err := own.ACLTokens().Self(nil); err != nil || self.AccessorID != made.AccessorID || self.SecretID != made.SecretID {
		t.Errorf("Self() = %+v, %v", self, err)
	}
	if self, _, err := own.ACLTokens().Info(made.AccessorID, nil); err != nil || self.Name != "a" {
		t.Errorf("Info() of its own = %+v, %v", self, err)
	}
	if _, _, err := own.Jobs().List(nil); err != nil {
		t.Errorf("jobs by a role: %v", err)
	}
	_, _, err = own.ACLTokens().List(nil)
	harness.WantError(t, "List() without management", err, "403", "management")
	_, _, err = own.ACLTokens().Info(anonymous, nil)
	harness.WantError(t, "Info() of another's", err, "403", "Permission denied")
	_, _, err = g.ACLTokens().Info(anonymous, nil)
	harness.WantError(t, "Info() of none", err, "404", "ACL token not found")
	_, _, err = g.ACLTokens().Create(&sdk.ACLToken{Type: "client"}, nil)
	harness.WantError(t, "Create() without a policy", err, "400", "policy or role")

	made.Name, made.Policies, made.Roles = "b", []string{"readers"}, nil
	if changed, _, err := g.ACLTokens().Update(made, nil); err != nil || changed.Name != "b" || len(changed.Roles) != 0 ||
		changed.ModifyIndex <= made.ModifyIndex {
		t.Errorf("Update() = %+v, %v", changed, err)
	}
	checkTokenLists(g, t)
	if _, err := g.ACLTokens().Delete(made.AccessorID, nil); err != nil {
		t.Errorf("Delete() = %v", err)
	}
	_, _, err = own.ACLTokens().Self(nil)
	harness.WantError(t, "Self() of a token that is gone", err, "403", "")
	_, err = g.ACLTokens().Delete(made.AccessorID, nil)
	harness.WantError(t, "Delete() again", err, "404", "ACL token not found")
}

// nobody is an accessor ID without a token.
const anonymous = "00000000-0000-4000-8000-000000000000"

// tokenLists checks lists of tokens with pages, prefix, filter and all regions.
func checkTokenLists(g *harness.ACLClient, t *testing.T) {
	t.Helper()
	for range 3 {
		if _, _, err := g.ACLTokens().Create(&sdk.ACLToken{Name: "many", Type: "client", Policies: []string{"readers"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := g.ACLTokens().List(nil)
	if err != nil || len(all) != 5 {
		t.Fatalf("List() = %d tokens, %v, want 5", len(all), err)
	}
	var paged []string
	q := &sdk.QueryOptions{PerPage: 2}
	for pages := 1; ; pages++ {
		page, meta, err := g.ACLTokens().List(q)
		if err != nil || pages > 3 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, tk := range page {
			paged = append(paged, tk.AccessorID)
		}
		if q.NextToken = meta.NextToken; q.NextToken == "" {
			break
		}
	}
	if !slices.EqualFunc(all, paged, func(s *sdk.ACLTokenListStub, id string) bool { return s.AccessorID == id }) {
		t.Errorf("pages %v of %v", paged, all)
	}
	for what, q := range map[string]*sdk.QueryOptions{"prefix": {Prefix: all[2].AccessorID[:8]},
		"filter": {Filter: `AccessorID == "` + all[2].AccessorID + `"`}} {
		if some, _, err := g.ACLTokens().List(q); err != nil || len(some) != 1 || some[0].AccessorID != all[2].AccessorID {
			t.Errorf("List() by %s = %v, %v", what, some, err)
		}
	}
	if some, _, err := g.ACLTokens().List(&sdk.QueryOptions{Params: map[string]string{"global": "true"}}); err != nil || len(some) != 1 ||
		some[0].Name != "Bootstrap Token" {
		t.Errorf("List() of all regions = %v, %v", some, err)
	}
	if some, _, err := g.ACLTokens().List(&sdk.QueryOptions{Reverse: true, PerPage: 1}); err != nil ||
		some[0].AccessorID != all[4].AccessorID {
		t.Errorf("List() in reverse = %v, %v", some, err)
	}
}

// A one-time token is valid once.
func TestSDKOneTimeToken(t *testing.T) {
	g := harness.NewACLClient(t)
	g.CreatePolicy(t, "readers", `namespace "default" { policy = "read" }`, nil)
	own, token := g.As(t, "readers")
	once, _, err := own.ACLTokens().UpsertOneTimeToken(nil)
	if err != nil || once.AccessorID != token.AccessorID || once.OneTimeSecretID == "" || !once.ExpiresAt.After(time.Now()) {
		t.Fatalf("UpsertOneTimeToken() = %+v, %v", once, err)
	}
	other := harness.SDKClient(t, g.Agent, "")
	got, _, err := other.ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nil)
	if err != nil || got.SecretID != token.SecretID {
		t.Errorf("ExchangeOneTimeToken() = %+v, %v", got, err)
	}
	_, _, err = other.ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nil)
	harness.WantError(t, "a second exchange", err, "403", "")
	_, _, err = other.ACLTokens().UpsertOneTimeToken(nil)
	harness.WantError(t, "UpsertOneTimeToken() without a token", err, "403", "")
}

// Every SDK method for roles works.
func TestSDKRoles(t *testing.T) {
	g := harness.NewACLClient(t)
	g.CreatePolicy(t, "readers", `namespace "default" { policy = "read" }`, nil)
	links := []*sdk.ACLRolePolicyLink{{Name: "readers"}}
	role, _, err := g.ACLRoles().Create(&sdk.ACLRole{Name: "auditors", Description: "they look", Policies: links}, nil)
	if err != nil || role.ID == "" {
		t.Fatalf("Create() = %+v, %v", role, err)
	}
	other, _, err := g.ACLRoles().Create(&sdk.ACLRole{Name: "others", Policies: links}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = g.ACLRoles().Create(&sdk.ACLRole{Name: "auditors", Policies: links}, nil)
	harness.WantError(t, "Create() of the same name", err, "400", "auditors")
	_, _, err = g.ACLRoles().Create(&sdk.ACLRole{Name: "x", Policies: []*sdk.ACLRolePolicyLink{{Name: "none"}}}, nil)
	harness.WantError(t, "Create() with a policy that there is not", err, "400", "none")
	role.Description = "they look closely"
	if role, _, err = g.ACLRoles().Update(role, nil); err != nil || role.Description != "they look closely" {
		t.Fatalf("Update() = %+v, %v", role, err)
	}
	if got, _, err := g.ACLRoles().Get(role.ID, nil); err != nil || got.Name != "auditors" {
		t.Errorf("Get() = %+v, %v", got, err)
	}
	if got, _, err := g.ACLRoles().GetByName("auditors", nil); err != nil || got.ID != role.ID {
		t.Errorf("GetByName() = %+v, %v", got, err)
	}
	token, _, err := g.ACLTokens().Create(&sdk.ACLToken{Type: "client", Roles: []*sdk.ACLTokenRoleLink{{ID: role.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := harness.SDKClient(t, g.Agent, token.SecretID)
	if all, _, err := own.ACLRoles().List(nil); err != nil || len(all) != 1 || all[0].ID != role.ID {
		t.Errorf("List() of its own = %+v, %v", all, err)
	}
	_, _, err = own.ACLRoles().Get(other.ID, nil)
	harness.WantError(t, "Get() of another's", err, "403", "Permission denied")
	if all, _, err := g.ACLRoles().List(&sdk.QueryOptions{Prefix: other.ID[:8]}); err != nil || len(all) != 1 || all[0].Name != "others" {
		t.Errorf("List() by prefix = %+v, %v", all, err)
	}
	if _, err := g.ACLRoles().Delete(role.ID, nil); err != nil {
		t.Errorf("Delete() = %v", err)
	}
	_, _, err = g.ACLRoles().Get(role.ID, nil)
	harness.WantError(t, "Get() of one that is gone", err, "404", "ACL role not found")
	_, _, err = own.Jobs().List(nil)
	harness.WantError(t, "jobs without the role", err, "403", "list-jobs")
}

// Without ACLs the ACL routes return an error, except for the caller's own token.
func TestACLRoutesWithoutAccessControl(t *testing.T) {
	a := harness.DevAgent(t)
	for _, route := range []string{"GET policies", "GET policy/self", "GET policy/x", "PUT policy/x", "DELETE policy/x", "GET tokens",
		"PUT bootstrap", "PUT token", "GET token/" + anonymous, "PUT token/" + anonymous,
		"DELETE token/" + anonymous, "PUT token/onetime", "PUT token/onetime/exchange", "GET roles", "PUT role", "GET role/" + anonymous,
		"PUT role/" + anonymous, "DELETE role/" + anonymous, "GET role/name/x",
		"GET explain?kind=node&right=read"} {
		method, path, _ := strings.Cut(route, " ")
		if code, text := withoutToken(t, a, method, "/v1/acl/"+path, "{}"); code != 400 || text != "ACL support disabled" {
			t.Errorf("%s = %d %q, want 400 and ACL support disabled", route, code, text)
		}
	}
	code, text := withoutToken(t, a, "GET", "/v1/acl/token/self", "")
	var self struct{ AccessorID string }
	if err := json.Unmarshal([]byte(text), &self); err != nil || code != 200 || self.AccessorID != "acls-disabled" {
		t.Errorf("token/self = %d %s, %v", code, text, err)
	}
	for route, want := range map[string]int{"PATCH policies": 405, "PUT roles": 405, "DELETE token/self": 405, "GET token/onetime": 405,
		"GET bootstrap": 405} {
		method, path, _ := strings.Cut(route, " ")
		if code, text := withoutToken(t, a, method, "/v1/acl/"+path, "{}"); code != want {
			t.Errorf("%s = %d %q, want %d", route, code, text, want)
		}
	}
}

// withoutToken makes a request without a token.
func withoutToken(t *testing.T, a *cluster.Agent, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, a.Address()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
