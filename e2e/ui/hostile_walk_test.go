package ui

import (
	"net/url"
	"strings"
	"testing"
)

// hostilePath is a variable's path of the greatest length, in one word.
var hostilePath = "hostile-walk/" + strings.Repeat("w", 100)

// hostileCluster puts hostile text into each field that takes any text, and returns the ID of a job that runs and
// that of an evaluation that placed nothing.
func (h *house) hostileCluster(t *testing.T) (job, evaluation string) {
	t.Helper()
	h.call(t, "PUT", "/v1/namespace/hostile-walk", m{
		"Name":        "hostile-walk",
		"Description": hostile("description"),
		"Meta":        m{"owner": hostile("owner")},
	}, nil)
	h.call(t, "PUT", "/v1/node/pool/hostile-walk", m{
		"Name":        "hostile-walk",
		"Description": hostile("description"),
		"Meta":        m{hostile("key"): hostile("value")},
	}, nil)
	h.policy(t, "hostile-walk", hostile("description"), "# "+hostile("rules")+"\nnode { policy = \"read\" }\n")
	var role struct{ ID string }
	h.call(t, "PUT", "/v1/acl/role", m{
		"Name":        "hostile-walk",
		"Description": hostile("description"),
		"Policies":    []m{{"Name": "hostile-walk"}},
	}, &role)
	t.Cleanup(func() {
		if _, err := h.agent.Client.ACLRoles().Delete(role.ID, nil); err != nil {
			t.Error(err)
		}
	})
	h.call(t, "PUT", "/v1/acl/token", m{"Name": hostile("token"), "Type": "client", "Policies": []string{"hostile-walk"}}, nil)
	h.putVariable(t, hostilePath, m{hostile("item"): hostile("value")})
	node := h.node(t)
	h.call(t, "POST", "/v1/client/metadata?node_id="+node.ID, m{"NodeID": node.ID, "Meta": m{"walk": hostile("meta")}}, nil)

	service := m{"Name": "hostile-walk", "Provider": "nomad", "Tags": []string{hostile("tag")},
		"Meta": m{strings.ReplaceAll(hostile("key"), " ", "/"): hostile("value")}}
	task := m{
		"Name":      strings.ReplaceAll(hostile("task"), "/", "-"),
		"Driver":    "mock_driver",
		"Config":    m{"run_for": "1h"},
		"Env":       m{"A": hostile("env")},
		"Meta":      m{hostile("key"): hostile("value")},
		"Resources": m{"CPU": 20, "MemoryMB": 20},
	}
	fails := m{
		"Name":      "fails",
		"Driver":    "mock_driver",
		"Config":    m{"start_error": hostile("event")},
		"Resources": m{"CPU": 20, "MemoryMB": 20},
	}
	group := func(name string, task m) m {
		return m{"Name": hostile(name), "Count": 1, "Tasks": []m{task}, "Services": []m{service}, "Update": m{"MaxParallel": 0},
			"RestartPolicy": m{
				"Attempts": 0,
				"Mode":     "fail",
				"Interval": 60e9,
				"Delay":    1e9,
			}, "ReschedulePolicy": m{"Attempts": 0, "Unlimited": false}}
	}
	far := group("far", task)
	far["Constraints"] = []m{
		{"LTarget": "${meta.walk}", "RTarget": hostile("constraint"), "Operand": "!="},
		{"LTarget": "${meta." + strings.Repeat("w", 60) + "}", "RTarget": hostile("constraint"), "Operand": "="},
	}
	job = strings.ReplaceAll(hostile("walk"), " ", "/")
	h.call(t, "PUT", "/v1/jobs", m{
		"Job": m{"ID": job, "Name": hostile("walk"), "Type": "service", "Datacenters": []string{"*"}, "Meta": m{hostile("key"): hostile("value")},
			"UI": m{"Description": hostile("description")}, "TaskGroups": []m{group("near", task), group("fail", fails), far}},
		"Submission": m{"Source": hostile("source"), "Format": "hcl2"},
	}, nil)
	t.Cleanup(func() { h.stop(t, job) })
	h.waitAllocs(t, job, "running", 1)
	h.waitAllocs(t, job, "failed", 1)
	return job, h.evaluation(t, job, "complete")
}

// Each page of a cluster with hostile text shows it as text, runs no script, fits at 200 %, and reports no error.
func TestHostileWalk(t *testing.T) {
	h := open(t)
	job, evaluation := h.hostileCluster(t)
	node := "/ui/clients/" + h.node(t).ID
	alloc := "/ui/allocations/" + h.waitAllocs(t, job, "running", 1)[0].ID
	failed := "/ui/allocations/" + h.waitAllocs(t, job, "failed", 1)[0].ID
	near, task := hostile("near"), strings.ReplaceAll(hostile("task"), "/", "-")
	pages := []struct {
		path, text string
		axe        bool
	}{
		{"/ui/", "isolation", true}, {"/ui/clients", "<b>node</b>", false}, {node, "Node registered", false},
		{node + "/allocations", "near\"'><img", false},
		{node + "/attributes", "attr.kernel.name", false}, {node + "/metadata", "meta\"'><img", true},
		{"/ui/node-pools?q=hostile-walk", "description\"'><img", true}, {"/ui/servers", "<b>node</b>", false},
		{"/ui/jobs?q=walk", "walk\"'><img", true}, {jobPath(job, ""), "Not placed", true},
		{jobPath(job, "allocations"), "near\"'><img", false}, {jobPath(job, "logs"), "task\"'><img", false},
		{jobPath(job, "deployments"), "walk\"'><img", false}, {jobPath(job, "versions"), "The oldest version", false},
		{jobPath(job, "evaluations"), "job-register", false},
		{jobPath(job, "definition"), "source\"'><img", true}, {alloc, "task\"'><img", true}, {failed, "event\"'><img", true},
		{alloc + "/fs", "alloc/", false}, {alloc + "/logs", "task\"'><img", false},
		{alloc + "/sandbox", "task\"'><img", false}, {"/ui/exec/" + url.PathEscape(job+"@default") + "/" +
			url.PathEscape(near) + "/" + url.PathEscape(task) + "/" + alloc[len("/ui/allocations/"):], "task\"'><img", false},
		{"/ui/evaluations?q=walk", "walk\"'><img", true}, {"/ui/evaluations/" + evaluation, "constraint\"'><img", true},
		{"/ui/variables/path/hostile-walk", "www", false},
		{"/ui/variables/var/" + hostilePath + "@default", "item\"'><img", true},
		{"/ui/variables/var/" + hostilePath + "@default/edit", "Add an item", false},
		{"/ui/identities", "expires in", false}, {"/ui/identities/workloads?q=walk", "near\"'><img", false}, {"/ui/keyring", "Keyring", false},
		{"/ui/administration?q=" + url.QueryEscape("token\"'><img"), "token\"'><img", true},
		{"/ui/administration/policies", "description\"'><img", false},
		{"/ui/administration/roles", "description\"'><img", false}, {"/ui/administration/policies/hostile-walk", "rules\"'><img", true},
	}
	p := h.signedIn(t, "/sandbox?namespace=default") // mock_driver has no sandbox
	for _, page := range pages {
		p.show(views[0])
		p.goTo(page.path, page.text)
		p.wait("the page is drawn", "document.querySelector('main h1') && !document.querySelector('main .loading')")
		for _, v := range []view{views[2], views[3]} {
			p.show(v)
			p.fits(v)
		}
		if page.axe {
			for _, v := range views[:2] {
				p.show(v)
				p.axe(v)
			}
		}
		p.noInjection(page.path)
		if t.Failed() {
			t.Fatalf("on the page %s", page.path)
		}
	}
}
