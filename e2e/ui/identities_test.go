package ui

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// bearer is a job with a default and a named identity.
const bearer = `job "bearer" {
  group "g" {
    task "t" {
      driver = "mock_driver"
      config { run_for = "1h" }
      identity {
        env = true
      }
      identity {
        name = "aws"
        aud  = ["sts.example"]
        file = true
        ttl  = "1h"
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}`

func TestIdentityPages(t *testing.T) {
	h := open(t)
	h.run(t, bearer)
	h.visit(t, visited{name: "identities-nodes", path: "/ui/identities", text: "expires in", act: func(p *tab) {
		p.waitText("Earliest expiry of the")
		p.waitText("nomadproject.io")
	}})
	h.visit(t, visited{
		name: "identities-workloads",
		path: "/ui/identities/workloads?q=bearer",
		text: "aws for sts.example, valid 1h, renewed, in file",
		act: func(p *tab) {
			p.waitText("g/t: default for nomadproject.io, valid as long as the allocation, in env")
		},
	})
	h.visit(t, visited{
		name: "identities-audiences",
		path: "/ui/identities/audiences?audience=sts.example",
		text: "Bootstrap Token",
		act: func(p *tab) {
			p.waitText("task t")
		},
	})

	h.visit(t, visited{name: "identities-vault", path: "/ui/identities/vault", text: "none", act: func(p *tab) {
		p.waitText("Tasks with a vault block log in to Vault")
	}})

	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/identities", "expires in")
	p.click("Renew")
	p.inDialog("Renew")
	p.waitText("expires in")
	testpace.Until(t, "the leader has measured the earliest expiry", func() bool {
		var metrics struct{ Gauges []struct{ Name string } }
		h.call(t, "GET", "/v1/metrics", nil, &metrics)
		return slices.ContainsFunc(metrics.Gauges, func(g struct{ Name string }) bool {
			return strings.HasSuffix(g.Name, "node_identity.earliest_expiry")
		})
	})
	p.goTo("/ui/identities", "Earliest expiry of the fleet: in 23h 5")
	p.screenshot("identities-fleet-light")
	p.goTo("/ui/identities/audiences", "Audience")
	p.typeInto("Audience", hostile("aud"))
	p.clickButton("Find")
	p.waitText("None that you may see.")
	p.noInjection("audiences")

	_, secret := h.token(t, `namespace "default" { policy = "read" }`, 0)
	few := h.with(t, secret, "403")
	few.show(views[0])
	few.goTo("/ui/identities", "Your token may not read nodes.")
	few.goTo("/ui/identities/audiences?audience=sts.example", "Only a management token may list the others.")
	few.waitText("task t")
}

func TestKeyring(t *testing.T) {
	h := open(t)
	h.putVariable(t, "key/ring", m{"a": "b"})
	h.visit(t, visited{name: "keyring", path: "/ui/keyring", text: "signs and encrypts"})
	h.visit(t, visited{name: "keyring-rotate", path: "/ui/keyring", text: "signs and encrypts", act: func(p *tab) {
		p.click("Rotate")
		p.waitText("Hours until the new key signs")
	}})
	keys := func() (out []struct{ KeyID, State string }) {
		h.call(t, "GET", "/v1/operator/keyring/keys", nil, &out)
		return out
	}
	p := h.signedIn(t, "400")
	p.show(views[0])
	p.goTo("/ui/keyring", "signs and encrypts")
	first := keys()
	p.click("Rotate")
	p.pressIn("Cancel")
	p.wait("the dialog is closed", "!document.querySelector('dialog[open]')")
	if n := len(keys()); n != len(first) {
		t.Errorf("%d keys after a rotation that was cancelled, want %d", n, len(first))
	}
	p.click("Rotate")
	p.typeInto("Hours until the new key signs", "x")
	p.waitText("Use a whole number of hours")
	p.typeInto("Hours until the new key signs", "")
	p.inDialog("Rotate")
	p.waitText("verifies and decrypts only")
	second := keys()
	if len(second) != len(first)+1 {
		t.Errorf("%d keys after a rotation, want %d", len(second), len(first)+1)
	}
	p.click("Remove")
	p.pressIn("Remove")
	p.waitText("root key in use, cannot delete")
	if n := len(keys()); n != len(second) {
		t.Errorf("a key in use was removed: %d keys", n)
	}
	p.pressIn("Cancel")
	p.click("Rotate")
	p.typeInto("Hours until the new key signs", "24")
	p.inDialog("Rotate")
	p.waitText("published, signs later")
	p.wait("the time of its use", "/in (1d|23h)/.test(document.body.innerText)")
	if jwks := evaluate[string](p,
		"document.querySelector('main a[href=\"/.well-known/jwks.json\"]').href"); !strings.HasSuffix(jwks, "/.well-known/jwks.json") {
		t.Errorf("link %q", jwks)
	}
	evaluate[int](p, "fetch('/.well-known/jwks.json').then((r) => r.json()).then((j) => j.keys.length)")

	_, secret := h.token(t, `node { policy = "read" }`, 0)
	few := h.with(t, secret, "403")
	few.show(views[0])
	few.goTo("/ui/keyring", "Your token may not read the keyring.")
}
