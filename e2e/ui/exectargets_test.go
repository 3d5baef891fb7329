package ui

import (
	"net/url"
	"testing"
)

// A path of a terminal without an allocation shows the running tasks as links. No session starts.
func TestExecTargets(t *testing.T) {
	h := open(t)
	const sleep = "exec sleep 3600"
	id := h.runShell(t, "targets", script{task: "one", text: sleep}, script{task: "two", text: sleep})
	root := "/ui/exec/" + url.PathEscape("targets@default")
	h.visit(t, visited{name: "exec-targets", path: root, text: "Terminal in two"})

	p := h.signedIn(t)
	p.show(views[0])
	for path, want := range map[string]int{
		root: 2, root + "/web": 2, root + "/web/two": 1, "/ui/exec/targets": 2,
		"/ui/exec/targets/web/two?namespace=default&allocation=" + id: 1,
	} {
		p.goTo(path, "Terminal in two")
		if got := p.count("main td a", "Terminal in"); got != want {
			t.Errorf("%s: %d links, want %d", path, got, want)
		}
		if got := p.count("main button", "Connect"); got != 0 {
			t.Errorf("%s: the page offers a session before a task is chosen", path)
		}
	}
	p.click("Terminal in two")
	p.waitText("Not connected")
	full := evaluate[string](p, "decodeURIComponent(location.pathname)")
	if want := execPath("targets", "two", id); full != want {
		t.Errorf("the link leads to %s, want %s", full, want)
	}
	p.click("Connect")
	p.waitText("Connected")
	p.click("Disconnect")

	p.goTo(root+"/none", "The job has no group none.")
	p.goTo(root+"/web/none", "The group web has no task none.")
	p.goTo(root+"?allocation=00000000-0000-0000-0000-000000000000", "There are no running allocations.")
	q := h.signedIn(t, "404")
	q.goTo("/ui/exec/nojob", "Could not read this job.")
}
