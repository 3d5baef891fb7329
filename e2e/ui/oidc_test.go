package ui

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/security"

	"github.com/open-nomad/open-nomad/e2e/chromium"
	"github.com/open-nomad/open-nomad/internal/testidp"
)

// A browser signs in by an identity provider of another origin, and comes back to the window that began it.
func TestSignInByProvider(t *testing.T) {
	h := open(t)
	idp := testidp.New(t)
	idp.User = map[string]any{"sub": "alice", "groups": []string{"ops"}}
	h.policy(t, "readers", "", `namespace "default" { policy = "read" }`)
	callback := h.agent.Address() + "/ui/settings/tokens"
	method := "people" + strings.Repeat("w", 60)
	h.call(t, "PUT", "/v1/acl/auth-method", m{
		"Name":            method,
		"Type":            "OIDC",
		"TokenLocality":   "global",
		"MaxTokenTTL":     "1h",
		"TokenNameFormat": "${value.who}",
		"Config": m{
			"OIDCDiscoveryURL":    idp.URL,
			"DiscoveryCaPem":      []string{idp.CA},
			"OIDCClientID":        idp.ClientID,
			"OIDCClientSecret":    idp.Secret,
			"OIDCEnablePKCE":      true,
			"AllowedRedirectURIs": []string{callback},
			"ClaimMappings":       m{"sub": "who"},
			"ListClaimMappings":   m{"groups": "groups"},
		},
	}, nil)
	h.call(t, "PUT", "/v1/acl/binding-rule", m{
		"AuthMethod": method,
		"Selector":   `"ops" in list.groups`,
		"BindType":   "policy",
		"BindName":   "readers",
	}, nil)
	defer h.call(t, "DELETE", "/v1/acl/auth-method/"+method, nil, nil) // other tests see the page without a method

	p := h.with(t, "", "403", "request to another host: "+idp.URL+"/")
	p.do("accept the certificate of the provider",
		chromium.Send(security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}))
	p.show(views[0])
	p.goTo("/ui/settings/tokens", "Sign in with an identity provider")
	p.screenshot("oidc-light")
	p.axe(views[0])
	p.show(views[3])
	p.screenshot("oidc-narrow")
	p.fits(views[3])
	p.show(views[0])
	p.clickButton(method)
	p.waitText("Your token")
	p.waitText("alice")
	if at := evaluate[string](p, "location.href"); at != callback {
		t.Errorf("after the sign-in the URL is %s", at)
	}
	if stored := evaluate[string](p, "JSON.stringify([Object.keys(sessionStorage), localStorage, "+
		"document.cookie])"); stored != `[["nomad.token"],{},""]` {
		t.Errorf("the window keeps %s", stored)
	}
	p.goTo("/ui/jobs", "Live")
	p.click("alice")
	p.click("Sign out")
	p.waitText("Sign in with an identity provider")

	// A user whom no rule admits.
	idp.User = map[string]any{"sub": "mallory", "groups": []string{"sales"}}
	refused := h.with(t, "", "403", "400", "500", "request to another host: "+idp.URL+"/")
	refused.do("accept the certificate of the provider",
		chromium.Send(security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}))
	refused.show(views[0])
	refused.goTo("/ui/settings/tokens", "Sign in with an identity provider")
	refused.clickButton(method)
	refused.waitText("The sign-in failed.")
	refused.screenshot("oidc-refused")
	refused.axe(views[0])
	if stored := evaluate[string](refused, "JSON.stringify(sessionStorage)"); stored != "{}" {
		t.Errorf("after a refused sign-in the window keeps %s", stored)
	}

	// A return that this window has not begun: a code of someone else must not sign it in.
	forged := h.with(t, "", "403")
	forged.show(views[0])
	forged.goTo("/ui/settings/tokens?code=abc&state=def", "The sign-in was not begun in this window.")
	if at := evaluate[string](forged, "location.href"); at != callback {
		t.Errorf("the URL keeps the code: %s", at)
	}
}
