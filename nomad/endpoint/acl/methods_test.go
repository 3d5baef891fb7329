package acl_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestAuthMethods_Rules(t *testing.T) {
	g, p := servertest.StartACL(t, nil), testidp.New(t)
	made, err := upsertMethod(g, people(p))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	servertest.Equal(t, "client secret", made.Config.OIDCClientSecret, "redacted")
	if made.CreateIndex == 0 || made.CreateTime.IsZero() {
		t.Errorf("created at index %d, %v, want both", made.CreateIndex, made.CreateTime)
	}
	if made, err = upsertMethod(g, made); err != nil || made.Config.OIDCClientSecret != "redacted" { // with the redacted secret
		t.Fatalf("written back: %v", err)
	}
	made, err = upsertMethod(g, &rbac.AuthMethod{Name: "people", MaxTokenTTL: time.Minute, Default: true})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	servertest.Equal(t, "MaxTokenTTL", made.MaxTokenTTL, time.Minute)
	servertest.Equal(t, "TokenLocality", made.TokenLocality, "local")
	servertest.Equal(t, "Default", made.Default, true)
	var got message.ACLAuthMethodGetResponse
	g.Must("ACL.GetAuthMethod", &message.ACLAuthMethodGetRequest{MethodName: "people"}, &got)
	var set message.ACLAuthMethodsGetResponse
	g.Must("ACL.GetAuthMethods", &message.ACLAuthMethodsGetRequest{Names: []string{"people"}}, &set)
	if got.AuthMethod.Config.OIDCClientSecret != "redacted" || set.AuthMethods["people"].Config.OIDCClientSecret != p.Secret {
		t.Error("the secret is visible to a reader, or lost to other regions")
	}
	second := people(p)
	second.Name, second.Default = "second", true
	if _, err := upsertMethod(g, second); !servertest.IsCoded(err, 400, "default") {
		t.Errorf("a second default: %v, want 400", err)
	}
	first := machines(p)
	first.Default = true // with another type
	if _, err := upsertMethod(g, first); err != nil {
		t.Error(err)
	}
	var list message.ACLAuthMethodListResponse
	if err := g.Call("", "ACL.ListAuthMethods", &message.ACLAuthMethodListRequest{}, &list); err != nil || len(list.AuthMethods) != 2 {
		t.Errorf("without a token %d methods are listed, %v", len(list.AuthMethods), err)
	}
	for name, change := range map[string]func(*rbac.AuthMethod){
		"TTL": func(m *rbac.AuthMethod) { m.MaxTokenTTL = 25 * time.Hour },
		"secrets": func(m *rbac.AuthMethod) {
			m.Config = &rbac.AuthMethodConfig{OIDCDiscoveryURL: "https://x", OIDCClientSecret: "redacted"}
		},
		"none": func(m *rbac.AuthMethod) { m.Name = "a b" },
	} {
		m := people(p)
		change(m)
		if _, err := upsertMethod(g, m); !servertest.IsCoded(err, 400, "") {
			t.Errorf("%s: %v, want 400", name, err)
		}
	}
	for _, name := range []string{"people", "gone"} {
		err := g.Call(g.Root, "ACL.DeleteAuthMethods", &message.ACLAuthMethodDeleteRequest{Names: []string{name}}, nil)
		if (name == "gone") != servertest.IsCoded(err, 404, "ACL auth-method not found") {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	if err := g.Call("", "ACL.GetAuthMethods", &message.ACLAuthMethodsGetRequest{Names: []string{"machines"}}, &set); err == nil {
		t.Error("secrets are readable without a token")
	}
}

func TestBindingRules_Rules(t *testing.T) {
	g, p := servertest.StartACL(t, nil), testidp.New(t)
	r := &rbac.BindingRule{AuthMethod: "machines", BindType: "policy", BindName: "x", Selector: `value.who == "a"`}
	if _, err := upsertRule(g, r); !servertest.IsCoded(err, 400, "does not exist") {
		t.Errorf("a rule without its method: %v, want 400", err)
	}
	if _, err := upsertMethod(g, machines(p)); err != nil {
		t.Fatal(err)
	}
	made, err := upsertRule(g, r)
	if err != nil || made.ID == "" || made.CreateIndex == 0 {
		t.Fatalf("created %+v, %v", made, err)
	}
	changed, err := upsertRule(g, &rbac.BindingRule{ID: made.ID, BindType: "management"})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	servertest.Equal(t, "BindType", changed.BindType, "management")
	servertest.Equal(t, "Selector", changed.Selector, "")
	servertest.Equal(t, "AuthMethod", changed.AuthMethod, "machines")
	if !changed.CreateTime.Equal(made.CreateTime) {
		t.Errorf("CreateTime = %v, want %v", changed.CreateTime, made.CreateTime)
	}
	for name, r := range map[string]*rbac.BindingRule{
		"another method": {ID: made.ID, AuthMethod: "other", BindType: "management"},
		"bad selector":   {AuthMethod: "machines", BindType: "management", Selector: "who == root"},
		"bad template":   {AuthMethod: "machines", BindType: "role", BindName: "${list.groups}"},
	} {
		if _, err := upsertRule(g, r); !servertest.IsCoded(err, 400, "") {
			t.Errorf("%s: %v, want 400", name, err)
		}
	}
	if _, err := upsertRule(g, &rbac.BindingRule{ID: nomad.NewID(), AuthMethod: "machines",
		BindType: "management"}); !servertest.IsCoded(err, 404, "ACL binding rule not found") {
		t.Errorf("a deleted rule: %v, want 404", err)
	}
	// Deleting a method deletes its rules: a new method with the name has none.
	g.Must("ACL.DeleteAuthMethods", &message.ACLAuthMethodDeleteRequest{Names: []string{"machines"}}, nil)
	var list message.ACLBindingRulesListResponse
	if g.Must("ACL.ListBindingRules", &message.ACLBindingRulesListRequest{}, &list); len(list.ACLBindingRules) != 0 {
		t.Errorf("%d rules of a deleted method", len(list.ACLBindingRules))
	}
}
