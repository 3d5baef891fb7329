package ui

import (
	"fmt"
	"strings"
	"testing"
)

const changedMeanwhile = "This job was changed since you opened this dialog."

// Two people scale a group from the same count: the second one gets a conflict, and the count of the first
// one stays. The dialog shows the count that it acts on, although the page behind it is up to date.
func TestScaleConflict(t *testing.T) {
	h := open(t)
	counted := func(count string) string {
		return strings.Replace(mock("scaled-by-two", `type = "batch"`), `group "web" {`, "group \"web\" {\n    count = "+count, 1)
	}
	h.purgeAfter(t, "scaled-by-two")
	h.run(t, counted("1"))
	p := h.signedIn(t, "500")
	p.show(views[0])
	p.goTo(jobPath("scaled-by-two", ""), "1 running")
	p.click("Scale")
	p.typeInto("New count", "3")
	h.run(t, counted("2"))
	p.wait("the page has the new count", "document.querySelector('main td[data-kind=number]').innerText === '2'")
	p.waitText("has a count of 1.")
	p.pressIn("Scale")
	p.waitText(changedMeanwhile)
	if got := h.job(t, "scaled-by-two").TaskGroups[0].Count; got != 2 {
		t.Errorf("the count is %d after the conflict, want 2", got)
	}
	p.pressIn("Cancel")
	p.click("Scale")
	p.typeInto("New count", "3")
	p.inDialog("Scale")
	p.waitText("3 running")
}

// waitVersion waits until the overview of a job shows a version.
func (p *tab) waitVersion(version int) {
	p.t.Helper()
	p.wait(fmt.Sprintf("version %d", version), fmt.Sprintf("[...document.querySelectorAll('dt')].find((e) => "+
		"e.innerText === 'Version')?.nextElementSibling.innerText === '%d'", version))
}

// A job that someone else changes is not stopped, and not purged, by a dialog that was opened before.
func TestStopConflict(t *testing.T) {
	h := open(t)
	h.purgeAfter(t, "stopped-late")
	h.run(t, mock("stopped-late", ""))
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo(jobPath("stopped-late", ""), "1 running")
	for version, purge := range []bool{false, true} {
		p.waitVersion(version)
		p.click("Stop")
		action := "Stop"
		if purge {
			action = "Stop and purge"
			p.check("Also purge it")
		}
		h.run(t, mock("stopped-late", `meta { owner = "`+action+`" }`))
		p.pressIn(action)
		p.waitText(changedMeanwhile)
		if h.job(t, "stopped-late").Stop {
			t.Fatalf("%s: the job is stopped", action)
		}
		p.pressIn("Cancel")
	}
	p.waitVersion(2)
	p.click("Stop")
	p.inDialog("Stop")
	p.waitText("Stopped")
}

// A dialog never becomes that of the opposite action, when someone else does what it was opened for.
func TestEligibilityConflict(t *testing.T) {
	h := open(t)
	id := h.node(t).ID
	set := func(eligible bool) {
		if _, err := h.agent.Client.Nodes().ToggleEligibility(id, eligible, nil); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { set(true) })
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/clients/"+id, "Node registered")
	p.waitText("Live")
	p.click("Make ineligible")
	p.wait("the dialog", "document.querySelector('dialog[open] h2')?.innerText === 'Make the node ineligible?'")
	set(false)
	p.wait("the page has the new state", "[...document.querySelectorAll('main .page-head .button')].some((b) => "+
		"b.innerText === 'Make eligible')")
	if title := evaluate[string](p, "document.querySelector('dialog[open] h2')?.innerText ?? ''"); title != "" {
		t.Errorf("the dialog asks %q now", title)
	}
}
