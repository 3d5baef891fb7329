package ui

import (
	"net/url"
	"strings"
	"testing"
)

// rightToLeft is text in Hebrew between an override of the direction and its end.
const rightToLeft = "\u202e\u05e9\u05dc\u05d5\u05dd\u202c"

// markup sets a variable of the window if a page inserts it as markup or as an attribute.
const markup = `"'><img src=x onerror="window.injected=1"><svg onload=window.injected=1>`

// hostile returns a text with markup, right-to-left text and a long word.
func hostile(field string) string { return field + markup + rightToLeft + strings.Repeat("w", 25) }

// Text from the cluster is shown as text in every field, and does not break a page.
func TestHostileNames(t *testing.T) {
	h := open(t)
	id := hostile("id")
	id = strings.ReplaceAll(id, " ", "/") // job IDs contain no space
	job := func(cpu int) m {
		return m{"ID": id, "Name": hostile("name"), "Type": "service", "Datacenters": []string{"*"}, "Meta": m{hostile("key"): hostile("value")},
			"UI": m{
				"Description": hostile("description"),
				"Links": []m{
					{"Label": hostile("label"), "Url": "javascript:window.injected=1"},
					{"Label": hostile("label"), "Url": "https://x.example/" + markup},
				},
			},
			"TaskGroups": []m{{"Name": hostile("group"), "Count": 1, "Meta": m{hostile("key"): hostile("value")},
				"Update": m{
					"MaxParallel":      1,
					"Canary":           1,
					"MinHealthyTime":   1e6,
					"HealthyDeadline":  60e9,
					"ProgressDeadline": 600e9,
					"AutoRevert":       true,
				},
				"Tasks": []m{{"Name": strings.ReplaceAll(hostile("task"), "/", "-"), "Driver": "mock_driver",
					"Config": m{"run_for": "1h"}, "Env": m{"A": hostile("env")},
					"Resources": m{"CPU": cpu, "MemoryMB": 20}}}}}}
	}
	h.call(t, "PUT", "/v1/jobs", m{"Job": job(20), "Submission": m{"Source": hostile("source"), "Format": "hcl2"}}, nil)
	h.waitDeployment(t, id, "successful", "")
	h.call(t, "PUT", "/v1/jobs", m{"Job": job(21), "Submission": m{"Source": hostile("source"), "Format": "hcl2"}}, nil)
	alloc := "/ui/allocations/" + h.waitAllocs(t, id, "running", 2)[0].ID
	terminal := "/ui/exec/" + url.PathEscape(id+"@default") + "/" + url.PathEscape(hostile("group")) + "/" +
		url.PathEscape(strings.ReplaceAll(hostile("task"), "/", "-")) + "/" + alloc[len("/ui/allocations/"):]

	// mock_driver has no sandbox
	p := h.signedIn(t, "404 (Not Found) http://"+strings.TrimPrefix(h.agent.Address(), "http://")+"/v1/jobs?namespace=",
		"/sandbox?namespace=default")
	for _, page := range []struct{ path, text string }{
		{"/ui/", "isolation"}, {"/ui/jobs", "name\"'><img"}, {"/ui/jobs?q=" + url.QueryEscape(id[:40]), "name\"'><img"},
		{jobPath(id, ""), "group\"'><img"}, {jobPath(id, "allocations"), "group\"'><img"}, {jobPath(id, "deployments"), "group\"'><img"},
		{jobPath(id, "versions"), "Revert to this"}, {jobPath(id, "evaluations"), "job-register"}, {jobPath(id, "logs"), "task\"'><img"},
		{alloc, "Task task\"'><img"}, {alloc + "/logs", "task\"'><img"}, {alloc + "/fs", "alloc/"},
		{alloc + "/sandbox", "Task task\"'><img"}, {terminal, "Terminal in task\"'><img"},
		{jobPath(id, "definition"), "source\"'><img"},
		{"/ui/settings/tokens?error=" + url.QueryEscape(hostile("e")), "The sign-in failed"},
		{"/ui/" + url.PathEscape(hostile("page")), "Page not found"},
		{"/ui/jobs?namespace=" + url.QueryEscape(hostile("ns")), "Jobs"},
	} {
		p.show(views[0])
		p.goTo(page.path, page.text)
		for _, v := range []view{views[0], views[3]} {
			p.show(v)
			p.fits(v)
		}
		if found := evaluate[string](p, `window.injected ? 'script ran' : [...document.querySelectorAll('main img, main script, main iframe, main svg[onload], a[href^="javascript:"]')].map((e) => e.outerHTML).join('\n')`); found != "" {
			t.Errorf("%s: injection: %s", page.path, found)
		}
	}
	p.goTo(jobPath(id, ""), "group\"'><img")
	p.screenshot("hostile-narrow")
	p.show(views[0])
	p.screenshot("hostile-light")
}
