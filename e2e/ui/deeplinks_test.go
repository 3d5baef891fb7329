package ui

import (
	"net/url"
	"testing"
)

// Paths of Nomad's UI lead to the page that shows the same, or to one that names what is absent.
func TestDeepLinks(t *testing.T) {
	h := open(t)
	id := h.runShell(t, "deep", script{task: "logs-writer", text: "exec sleep 3600"})
	p := h.signedIn(t)
	p.show(views[0])
	alloc := "/ui/allocations/" + id
	for _, link := range []struct{ path, text string }{
		{"/ui/optimize", "there are no recommendations"},
		{"/ui/optimize/deep", "there are no recommendations"},
		{"/ui/jobs/deep/web", "These are the allocations of the group web."},
		{"/ui/jobs/deep@default/constructor", "The job has no group and no page constructor."},
		{alloc + "/logs-writer", "The task logs-writer is shown on the page of its allocation."},
		{alloc + "/none", "The allocation has no task and no page none."},
		{"/ui/clients/" + h.node(t).ID + "/constructor", "A node has no page constructor."},
		{"/ui/servers/nosuch.global", "No server has the name nosuch.global."},
	} {
		p.goTo(link.path, link.text)
	}
	p.goTo("/ui/topology", "open-nomad")
	p.wait("the cells of the nodes", "document.querySelector('main .cells')")
	p.goTo("/ui/jobs/deep/web", id[:8])
	p.goTo(alloc+"/logs-writer", "Logs of the task")
	p.click("Logs of the task")
	p.wait("the logs of the task", "location.pathname.endsWith('/logs-writer/logs')")

	p.goTo("/ui/servers", "Removes dead servers")
	p.wait("a row", "document.querySelector('main tbody th bdi')")
	name := evaluate[string](p, "document.querySelector('main tbody th bdi').textContent")
	p.goTo("/ui/servers/"+url.PathEscape(name), "This server")
	if got := p.count("main tbody tr", "Leader"); got != 1 {
		t.Errorf("the page of the server %s has %d rows of it, want 1", name, got)
	}
	h.visit(t, visited{name: "job-group", path: "/ui/jobs/deep/web", text: "These are the allocations"})
}
