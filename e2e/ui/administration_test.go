package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// policy stores an ACL policy.
func (h *house) policy(t testing.TB, name, description, rules string) {
	t.Helper()
	h.call(t, "PUT", "/v1/acl/policy/"+name, m{"Name": name, "Description": description, "Rules": rules}, nil)
}

const shopRules = `namespace "shop-*" {
  policy       = "read"
  capabilities = ["alloc-exec"]
  variables {
    path "shop/*" { capabilities = ["read", "write"] }
    path "shop/root" { capabilities = ["deny"] }
  }
}
node_pool "gpu" { policy = "read" }
host_volume "data-*" { capabilities = ["mount-readonly"] }
node { policy = "read" }
quota { policy = "deny" }
operator { capabilities = ["snapshot-save"] }
`

func TestAdministrationPages(t *testing.T) {
	h := open(t)
	h.policy(t, "shop", "What the shop needs", shopRules)
	h.call(t, "PUT", "/v1/acl/policy/own", m{
		"Name":   "own",
		"Rules":  `node { policy = "read" }`,
		"JobACL": m{"Namespace": "default", "JobID": "api", "Group": "web"},
	}, nil)
	h.call(t, "PUT", "/v1/acl/role", m{"Name": "sellers", "Description": "People of the shop", "Policies": []m{{"Name": "shop"}}}, nil)
	h.call(t, "PUT", "/v1/acl/auth-method", m{"Name": "ci", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h",
		"Config": m{"JWKSURL": "https://keys.example/jwks", "BoundAudiences": []string{"nomad"}, "ClaimMappings": m{"repo": "repo"}}}, nil)
	h.call(t, "PUT", "/v1/acl/binding-rule", m{
		"AuthMethod":  "ci",
		"Selector":    `value.repo == "shop"`,
		"BindType":    "policy",
		"BindName":    "shop",
		"Description": hostile("rule"),
	}, nil)
	h.token(t, `node { policy = "read" }`, time.Hour)

	h.visit(t, visited{name: "tokens", path: "/ui/administration", text: "Bootstrap Token"})
	h.visit(t, visited{name: "tokens-create", path: "/ui/administration/tokens", text: "Bootstrap Token", act: func(p *tab) {
		p.click("Create a token")
		p.waitText("A client token has at least one policy or role.")
		p.waitText("sellers")
	}})
	h.visit(t, visited{name: "policies", path: "/ui/administration/policies", text: "Tasks of group web, job api in namespace default"})
	h.visit(t, visited{name: "policy", path: "/ui/administration/policies/shop", text: "What it grants", act: func(p *tab) {
		for _, text := range []string{"Namespaces that match shop-*: run commands in isolated tasks, ", "read jobs",
			"Namespaces that match shop-*, variables that match shop/*: read, write",
			"Namespaces that match shop-*, variable shop/root: nothing: everything is denied", "Node pool gpu: read",
			"Host volumes that match data-*: mount it for reading",
			"Nodes: read", "Quotas: nothing: everything is denied", "The cluster itself (operator): snapshot save"} {
			p.waitText(text)
		}
	}})
	h.visit(t, visited{name: "policy-new", path: "/ui/administration/policies/new", text: "Rules"})
	h.visit(t, visited{name: "roles", path: "/ui/administration/roles", text: "sellers"})
	h.visit(t, visited{name: "auth-methods", path: "/ui/administration/auth-methods", text: "JWT"})
	h.visit(t, visited{
		name: "binding-rules",
		path: "/ui/administration/binding-rules?method=ci",
		text: `value.repo == "shop"`,
		act: func(p *tab) {
			p.waitText("policy shop")
			p.noInjection("binding rules")
		},
	})

	_, secret := h.token(t, `node { policy = "read" }`, 0)
	for tab, text := range map[string]string{
		"tokens":        "Your token may not read tokens.",
		"binding-rules": "Your token may not read binding rules.",
	} {
		few := h.with(t, secret, "403")
		few.show(views[0])
		few.goTo("/ui/administration/"+tab, text)
	}
}

// The secret of a new token is shown once, works, and is nowhere afterwards.
func TestTokenActions(t *testing.T) {
	h := open(t)
	h.policy(t, "tokens", "", `node { policy = "read" }`)
	p := h.signedIn(t, "400", "500")
	p.show(views[0])
	p.goTo("/ui/administration/tokens", "Bootstrap Token")
	p.hides(management)
	name := "made" + markup + rightToLeft
	p.click("Create a token")
	p.typeInto("Name", name)
	p.typeInto("Lifetime", "soon")
	p.waitText("Use a duration such as 8h or 30m.")
	p.typeInto("Lifetime", "999999h")
	p.check("tokens")
	p.pressIn("Create")
	p.waitText("acl.token_max_expiration_ttl")
	p.typeInto("Lifetime", "8h")
	p.inDialog("Create")
	p.waitText("it cannot be shown again")
	p.screenshot("token-created")
	p.axe(views[0])
	secret := evaluate[string](p, "document.querySelector('.secret').innerText")
	var self struct {
		AccessorID, Name, ExpirationTTL string
		Policies                        []string
	}
	h.callAs(t, secret, "GET", "/v1/acl/token/self", &self)
	if self.Name != name || self.ExpirationTTL != "8h0m0s" || len(self.Policies) != 1 || self.Policies[0] != "tokens" {
		t.Errorf("created %+v", self)
	}
	p.click("I have kept it")
	p.wait("the secret is gone", "!document.querySelector('.secret')")
	p.hides(secret)
	p.goTo("/ui/administration/tokens?q="+self.AccessorID, "made")
	p.hides(secret)
	p.noInjection("tokens")
	p.click("Delete")
	p.inDialog("Delete")
	p.waitText("No tokens match the filter.") // by the event stream
}

func TestPolicyActions(t *testing.T) {
	h := open(t)
	p := h.signedIn(t, "400", "404", "500")
	p.show(views[0])
	p.goTo("/ui/administration/policies/new", "Rules")
	p.typeInto("Name", "edited")
	p.typeInto("Description", hostile("d"))
	p.typeInto("Rules", "namespace \"default\" {\n  polcy = \"read\"\n}\n")
	p.clickButton("Create")
	p.waitText(`line 2, column 3: namespace "default" has no key "polcy"; did you mean "policy"?`)
	p.screenshot("policy-error")
	p.axe(views[0])
	p.typeInto("Rules", "namespace \"default\" {\n  policy = \"read\"\n}\n")
	p.clickButton("Create")
	p.waitText("What it grants")
	p.waitText("Namespace default: ")
	p.noInjection("policy")
	var stored struct{ Rules, Description string }
	h.call(t, "GET", "/v1/acl/policy/edited", nil, &stored)
	if !strings.Contains(stored.Rules, `policy = "read"`) || stored.Description != hostile("d") {
		t.Errorf("created %+v", stored)
	}

	// Someone else writes it while the form is open.
	p.click("Edit")
	p.typeInto("Rules", "node { policy = \"read\" }\n")
	h.policy(t, "edited", "", `quota { policy = "read" }`)
	p.clickButton("Save")
	p.waitText("Someone else has written this policy.")
	p.waitText(`quota { policy = "read" }`)
	p.axe(views[0])
	h.call(t, "GET", "/v1/acl/policy/edited", nil, &stored)
	if !strings.Contains(stored.Rules, "quota") {
		t.Errorf("overwritten without a question: %s", stored.Rules)
	}
	p.check("Replace it with my text")
	p.clickButton("Save")
	p.waitText("Nodes: read")
	p.click("Delete")
	p.inDialog("Delete")
	p.wait("the list", "location.pathname === '/ui/administration/policies'")
	testpace.Until(t, "the policy is deleted", func() bool {
		var all []struct{ Name string }
		h.call(t, "GET", "/v1/acl/policies?prefix=edited", nil, &all)
		return len(all) == 0
	})
}
