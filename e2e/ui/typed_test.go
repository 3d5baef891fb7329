package ui

import (
	"strings"
	"testing"
)

// refusedWhile opens a page with a token, types into it, and deletes the token.
func (h *house) refusedWhile(t *testing.T, rules, path, text string, typed func(*tab)) *tab {
	t.Helper()
	accessor, secret := h.token(t, rules, 0)
	p := h.with(t, secret, "403", "404", "500")
	p.show(views[0])
	p.goTo(path, text)
	typed(p)
	h.call(t, "DELETE", "/v1/acl/token/"+accessor, nil, nil)
	return p
}

// signInAgain signs in by the dialog above the page. The last button is that of the innermost dialog.
func (p *tab) signInAgain() {
	p.t.Helper()
	p.waitText("Your token is no longer accepted.")
	evaluate[bool](p, "[...document.querySelectorAll('button')].findLast((b) => b.innerText === 'Sign in again').click() || true")
	p.typeInto("Secret ID of an ACL token", "00000000-0000-0000-0000-000000000000")
	p.pressIn("Sign in")
	p.waitText("This token is not accepted either.")
	p.axe(views[0])
	p.typeInto("Secret ID of an ACL token", management)
	p.pressIn("Sign in")
	p.waitText("Bootstrap Token")
	p.wait("the sign-in is closed", "![...document.querySelectorAll('dialog')].some((d) => d.innerText.includes('Sign in again'))")
	p.hides(management)
}

// A token is refused while a variable is typed. After the sign-in the same form is there, and is saved.
func TestVariableTypedWhileRefused(t *testing.T) {
	h := open(t)
	h.putVariable(t, "typed/here", m{"a": "stored"})
	rules := `namespace "default" { variables { path "typed/*" { capabilities = ["list", "read", "write"] } } }`
	p := h.refusedWhile(t, rules, "/ui/variables/var/typed/here@default/edit", "Add an item", func(p *tab) {
		p.click("Show and edit item 1")
		p.typeInto("Value of item 1", "typed\ntext")
	})
	p.clickButton("Save")
	p.waitText("The variable was not written.")
	p.signInAgain()
	if got := evaluate[string](p, "document.querySelector('textarea').value"); got != "typed\ntext" {
		t.Fatalf("after the sign-in the field has %q", got)
	}
	if got := h.variable(t, "typed/here"); got["a"] != "stored" {
		t.Errorf("stored without a right: %q", got)
	}
	p.clickButton("Save")
	p.waitText("Who may read it")
	if got := h.variable(t, "typed/here"); got["a"] != "typed\ntext" {
		t.Errorf("saved %q", got)
	}
}

// The same for the file of a job, which also survives another page.
func TestJobTypedWhileRefused(t *testing.T) {
	h := open(t)
	h.purgeAfter(t, "typed-run")
	p := h.refusedWhile(t, `namespace "default" { policy = "write" }`, "/ui/jobs/run", "Job file", func(p *tab) {
		p.typeInto("Job file", mock("typed-run", ""))
	})
	p.click("Plan")
	p.waitText("The job could not be planned.")
	p.signInAgain()
	if got := p.source(); !strings.Contains(got, "typed-run") {
		t.Fatalf("after the sign-in the file is %q", got)
	}
	p.click("Sign in and settings")
	p.waitText("Appearance")
	p.click("Jobs")
	p.click("Run a job")
	p.waitText("Job file")
	p.click("Plan")
	p.waitText("1 of 1 node can take one more allocation")
	p.clickButton("Run")
	p.wait("the page of the job", "location.pathname.includes('/ui/jobs/typed-run%40default')")
	h.waitAllocs(t, "typed-run", "running", 1)
}

// The same inside a dialog: the sign-in opens above it, and its text and its action go on.
func TestDialogTypedWhileRefused(t *testing.T) {
	h := open(t)
	h.purgeAfter(t, "typed-scale")
	h.run(t, canary("typed-scale", 1, 20))
	h.waitDeployment(t, "typed-scale", "successful", "")
	p := h.refusedWhile(t, `namespace "default" { policy = "write" }`, jobPath("typed-scale", ""), "1 running", func(p *tab) {
		p.click("Scale")
		p.typeInto("New count", "2")
		p.typeInto("Reason, kept with the scaling event", "typed before")
	})
	p.pressIn("Scale")
	p.waitText("That did not work.")
	p.wait("the dialog reports the token", "document.querySelector('dialog[open]').innerText.includes('Your token is no longer accepted.')")
	for _, v := range []view{views[1], views[3], views[0]} {
		p.show(v)
		p.screenshot("dialog-refused-" + v.name)
		p.fits(v)
	}
	p.signInAgain()
	if got := evaluate[string](p, "[...document.querySelectorAll('dialog[open] input')].map((e) => e.value).join()"); got != "2,typed before" {
		t.Fatalf("after the sign-in the dialog has %q", got)
	}
	p.inDialog("Scale")
	p.waitText("2 running")
	if got := h.job(t, "typed-scale").TaskGroups[0].Count; got != 2 {
		t.Errorf("the count is %d", got)
	}
}
