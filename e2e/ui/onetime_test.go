package ui

import (
	"strings"
	"testing"
)

const (
	askOneTime  = "Sign in with another token?"
	keepMine    = "Keep the token of this window"
	useTheLinks = "Use the token of the link"
)

// oneTime returns a one-time token of the management token.
func (h *house) oneTime(t *testing.T) string {
	t.Helper()
	token, _, err := h.agent.Client.ACLTokens().UpsertOneTimeToken(nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.OneTimeSecretID
}

// A link with a one-time token does not replace the token of a window without a question. Nothing is
// exchanged before the answer, and the one-time token is out of the URL at once.
func TestOneTimeTokenAsks(t *testing.T) {
	h := open(t)
	_, secret := h.token(t, `namespace "default" { policy = "read" }`, 0)
	held := func(p *tab) string { return evaluate[string](p, "sessionStorage.getItem('nomad.token')") }
	oneTime := h.oneTime(t)
	p := h.with(t, secret, "403")
	p.goTo("/ui/jobs?namespace=default&ott="+oneTime, askOneTime)
	p.waitText("of p" + t.Name())
	for _, v := range views {
		p.show(v)
		p.screenshot("one-time-" + v.name)
		p.fits(v)
		p.axe(v)
	}
	if href := evaluate[string](p, "location.href + history.length + JSON.stringify(history.state) + "+
		"document.body.innerHTML"); strings.Contains(href, oneTime) || !strings.Contains(href, "namespace=default") {
		t.Errorf("the window keeps the one-time token, or not the rest of the query: %s", href)
	}
	if evaluate[bool](p, "performance.getEntriesByType('resource').some((e) => e.name.includes('/exchange'))") {
		t.Error("the token was exchanged before the answer")
	}
	p.click(keepMine)
	p.waitText("Live")
	if held(p) != secret {
		t.Error("the window has another token after the answer to keep it")
	}
	p.goTo("/ui/jobs?ott="+oneTime, askOneTime) // it was not used
	p.click(useTheLinks)
	p.waitText("Bootstrap Token")
	if held(p) != management {
		t.Error("the window does not have the token of the link")
	}
}

// A one-time token that is not accepted leaves the token of the window in place, and the page says so. A token
// that is no longer accepted is not in the way of a good one.
func TestOneTimeTokenFails(t *testing.T) {
	h := open(t)
	_, secret := h.token(t, `namespace "default" { policy = "read" }`, 0)
	p := h.with(t, secret, "403", "400", "404")
	p.goTo("/ui/jobs?namespace=default&ott=00000000-0000-0000-0000-000000000000", askOneTime)
	p.click(useTheLinks)
	p.waitText("The one-time token was not accepted")
	p.waitText("of p" + t.Name())
	p.waitText("Live")
	if got := evaluate[string](p, "sessionStorage.getItem('nomad.token')"); got != secret {
		t.Error("the window has another token")
	}
	q := h.with(t, "00000000-0000-0000-0000-000000000000", "403", "404")
	q.goTo("/ui/jobs?ott="+h.oneTime(t), "which is no longer accepted")
	q.click(useTheLinks)
	q.waitText("Bootstrap Token")
}
