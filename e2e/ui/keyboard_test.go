package ui

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/open-nomad/open-nomad/e2e/chromium"
)

// mostSteps bounds the walk with Tab over one page.
const mostSteps = 100

// tabTo presses Tab until the element with the focus has exactly this text. It returns the texts on the way.
func (p *tab) tabTo(text string) []string {
	p.t.Helper()
	var passed []string
	for range mostSteps {
		p.press("Tab", "Tab", 0)
		now := p.focused()
		passed = append(passed, now)
		if now == text {
			return passed
		}
	}
	p.t.Fatalf("Tab does not reach %q, but %q", text, passed)
	return nil
}

// focused returns the text of the element that has the focus, and fails the test if its focus is not visible.
func (p *tab) focused() string {
	p.t.Helper()
	e := evaluate[struct{ Text, Style, Width string }](p, `(() => {
		const e = document.activeElement, s = getComputedStyle(e)
		return { Text: (e.innerText || e.labels?.[0]?.innerText || '').trim(), Style: e === document.body ? 'body' : s.outlineStyle, Width: s.outlineWidth }
	})()`)
	if e.Style != "body" && (e.Style == "none" || e.Width == "0px") {
		p.t.Errorf("the focus of %q is not visible", e.Text)
	}
	return e.Text
}

func (p *tab) enter()  { p.press("Enter", "Enter", 0) }
func (p *tab) escape() { p.press("Escape", "Escape", 0) }

// All actions of a job are reached by Tab, opened by Enter and left by Escape, which gives the focus back.
func TestJobByKeyboard(t *testing.T) {
	h := open(t)
	h.purgeAfter(t, "keys")
	h.run(t, canary("keys", 1, 20))
	h.waitDeployment(t, "keys", "successful", "")
	h.run(t, canary("keys", 1, 21))
	h.waitAllocs(t, "keys", "running", 2)
	h.waitDeployment(t, "keys", "running", "requires manual promotion")
	p := h.signedIn(t)
	p.do("keep the focus", chromium.Send(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	p.show(views[0])
	p.goTo(jobPath("keys", ""), "1 healthy")
	p.waitText("Live")
	if passed := p.tabTo("Skip to the content"); len(passed) > 1 {
		t.Errorf("the link that skips the navigation is not the first, but after %q", passed)
	}
	p.enter()
	p.wait("the focus is in the content", "document.activeElement.id === 'main'")

	buttons := evaluate[[]string](p, "[...document.querySelectorAll('main button:not(:disabled)')].map((b) => b.innerText.trim())")
	for _, want := range []string{"Stop", "Promote", "Pause", "Fail", "Scale"} {
		if !slices.Contains(buttons, want) {
			t.Fatalf("the page has the buttons %q, without %s", buttons, want)
		}
	}
	for _, button := range buttons { // in the order of the page: one walk
		p.tabTo(button)
		p.enter()
		p.wait("the dialog of "+button+" has the focus", "document.querySelector('dialog[open]')?.contains(document.activeElement)")
		for range 6 { // the focus does not leave the dialog for the page behind it
			p.press("Tab", "Tab", 0)
			p.focused()
			if !evaluate[bool](p, "document.activeElement === document.body || "+
				"document.querySelector('dialog[open]').contains(document.activeElement)") {
				t.Errorf("Tab leaves the dialog of %s", button)
			}
		}
		p.escape()
		p.wait("the dialog is closed", "!document.querySelector('dialog[open]')")
		p.wait("the focus is on "+button, fmt.Sprintf("document.activeElement.innerText.trim() === %q", button))
	}
	if d := h.deployment(t, "keys"); d.Status != "running" || h.job(t, "keys").Stop {
		t.Errorf("Escape did something: the deployment is %s", d.Status)
	}

	p.goTo(jobPath("keys", ""), "1 healthy")
	p.tabTo("Promote")
	p.enter()
	p.wait("the dialog", "document.querySelector('dialog[open]')?.contains(document.activeElement)")
	p.tabTo("Promote") // behind Cancel, which has the focus at first
	p.enter()
	h.waitDeployment(t, "keys", "successful", "")
	p.wait("the dialog is closed", "!document.querySelector('dialog[open]')")
}
