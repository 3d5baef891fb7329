package ui

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/open-nomad/open-nomad/e2e/chromium"
)

// act opens the dialog of a button and confirms it, by the keyboard.
func (p *tab) act(button, action string) {
	p.t.Helper()
	for _, c := range []struct{ within, text string }{{"main", button}, {"dialog[open]", action}} {
		find := fmt.Sprintf("[...document.querySelectorAll('%s button')].find((e) => e.innerText.trim() === %q && !e.disabled)", c.within, c.text)
		p.wait("a button "+c.text, find)
		evaluate[bool](p, "("+find+").focus() || true")
		p.enter()
	}
	p.wait("the dialog is closed", "!document.querySelector('dialog[open]')")
}

// waitFocus waits until the focus is on an element with a name and exactly this text.
func (p *tab) waitFocus(element, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("the focus is on %s %q", element, text), fmt.Sprintf("document.activeElement.localName === "+
		"%q && document.activeElement.innerText.trim() === %q", element, text))
}

// An action can remove the button that began it, at once or when an event arrives. The focus then goes to the
// next action, or to the heading of the part or of the page, and never back to the start of the document.
func TestFocusAfterActions(t *testing.T) {
	h := open(t)
	h.purgeAfter(t, "focus")
	h.run(t, canary("focus", 1, 20))
	h.waitDeployment(t, "focus", "successful", "")
	h.run(t, canary("focus", 1, 21))
	h.waitDeployment(t, "focus", "running", "requires manual promotion")
	p := h.signedIn(t)
	p.do("keep the focus", chromium.Send(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	p.show(views[0])
	p.goTo(jobPath("focus", ""), "1 healthy")
	p.waitText("Live")
	p.act("Pause", "Pause")
	p.waitFocus("button", "Resume")
	p.act("Resume", "Resume")
	p.waitFocus("button", "Pause")
	p.act("Promote", "Promote")
	h.waitDeployment(t, "focus", "successful", "")
	p.wait("the deployment is no longer shown", "!document.querySelector('main .panel')")
	p.waitFocus("h1", "focus")

	h.run(t, canary("focus", 1, 22))
	h.waitDeployment(t, "focus", "running", "requires manual promotion")
	p.goTo(jobPath("focus", "deployments"), "Fail")
	p.waitText("Live")
	p.act("Fail", "Fail")
	p.wait("the actions are removed", "![...document.querySelectorAll('article')].find((a) => "+
		"a.innerText.includes('Version 2')).querySelector('button')")
	p.waitFocus("h2", "Version 2")

	p.act("Stop", "Stop")
	p.waitFocus("button", "Start")
	p.act("Start", "Start")
	p.waitFocus("button", "Stop")

	h.call(t, "PUT", "/v1/node/pool/focus", m{"Name": "focus"}, nil)
	p.goTo("/ui/node-pools", "focus")
	evaluate[bool](p, "[...document.querySelectorAll('main tr')].find((r) => "+
		"r.innerText.includes('focus')).querySelector('.button:last-of-type').focus() || true")
	p.enter()
	p.wait("the dialog", "document.querySelector('dialog[open] button[type=submit]')")
	evaluate[bool](p, "document.querySelector('dialog[open] button[type=submit]').focus() || true")
	p.enter()
	p.wait("the row is removed", "![...document.querySelectorAll('main tr')].some((r) => r.innerText.includes('focus'))")
	p.wait("the focus is in the table", "document.activeElement.matches('.table-scroll')")
}
