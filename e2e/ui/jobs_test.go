package ui

import (
	"net/url"
	"testing"
)

func jobPath(id, tab string) string {
	path := "/ui/jobs/" + url.PathEscape(id+"@default")
	if tab != "" {
		path += "/" + tab
	}
	return path
}

func TestJobPages(t *testing.T) {
	h := open(t)
	h.run(t, mock("web", ""))
	h.waitAllocs(t, "web", "running", 1)
	h.visit(t, visited{name: "overview", path: "/ui/", text: "isolation"})
	h.visit(t, visited{name: "jobs", path: "/ui/jobs", text: "1 running"})
	h.visit(t, visited{name: "job", path: jobPath("web", ""), text: "Groups"})
	h.visit(t, visited{name: "settings", path: "/ui/settings/tokens", text: "Appearance"})
}
