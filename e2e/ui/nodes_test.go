package ui

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// node returns the only node of the agent.
func (h *house) node(t *testing.T) *api.Node {
	t.Helper()
	var list []struct{ ID string }
	h.call(t, "GET", "/v1/nodes", nil, &list)
	if len(list) != 1 {
		t.Fatalf("%d nodes", len(list))
	}
	var node api.Node
	h.call(t, "GET", "/v1/node/"+list[0].ID, nil, &node)
	return &node
}

func TestNodePages(t *testing.T) {
	h := open(t)
	h.run(t, mock("on-node", ""))
	h.waitAllocs(t, "on-node", "running", 1)
	h.call(t, "PUT", "/v1/node/pool/gpu", m{
		"Name":        "gpu",
		"Description": "Nodes with " + hostile("a GPU"),
		"Meta":        m{"owner": hostile("ml")},
	}, nil)
	node := h.node(t)
	h.call(t, "POST", "/v1/client/metadata?node_id="+node.ID, m{"NodeID": node.ID, "Meta": m{"rack": hostile("r7")}}, nil)
	path := "/ui/clients/" + node.ID
	h.visit(t, visited{name: "nodes", path: "/ui/clients", text: node.ID[:8]})
	h.visit(t, visited{name: "node", path: path, text: "Node registered"})
	h.visit(t, visited{name: "node-allocations", path: path + "/allocations", text: "on-node"})
	h.visit(t, visited{name: "node-attributes", path: path + "/attributes", text: "attr.kernel.name"})
	h.visit(t, visited{name: "node-metadata", path: path + "/metadata", text: "a change"})
	h.visit(t, visited{name: "node-drain", path: path, text: "Drivers", act: func(p *tab) { p.click("Drain") }})
	h.visit(t, visited{name: "node-pools", path: "/ui/node-pools", text: "gpu"})

	p := h.signedIn(t, "404", "500")
	p.show(views[0])
	for page, text := range map[string]string{
		"/ui/clients":      node.ID[:8],
		path:               "Node registered",
		path + "/metadata": "rack",
		"/ui/node-pools":   "gpu",
		"/ui/clients?pool=" + url.QueryEscape(hostile("pool")): "No nodes match the filter.",
	} {
		p.goTo(page, text)
		p.uninjected(page)
	}
	p.goTo("/ui/node-pools", "gpu")
	p.click("gpu")
	p.waitText("No nodes match the filter.")
	p.goTo("/ui/clients?pool=default&status=ready&scheduling=eligible", node.ID[:8])
	p.goTo("/ui/clients?q=127.0.0.1", node.ID[:8])
	p.everyChoice()
	p.goTo(path+"/allocations?q=on-node", "on-node")
	p.everyChoice()
	p.goTo("/ui/clients/00000000-0000-0000-0000-000000000000", "Could not read this node.")
}

// everyChoice makes each choice of the filters of a list. The server refuses expressions with a mistake.
func (p *tab) everyChoice() {
	p.t.Helper()
	for i := range evaluate[int](p, "document.querySelectorAll('.list-tools select').length") {
		field := fmt.Sprintf("document.querySelectorAll('.list-tools select')[%d]", i)
		for option := evaluate[int](p, field+".options.length") - 1; option >= 0; option-- { // the first one is no filter
			evaluate[bool](p, fmt.Sprintf("((e) => { e.selectedIndex = %d; return e.dispatchEvent(new "+
				"Event('change', {bubbles: true})) })(%s)", option, field))
			p.wait("the list", "!document.querySelector('main .loading')")
			if alert := evaluate[string](p, "document.querySelector('main [role=alert]')?.innerText ?? ''"); alert != "" {
				p.t.Errorf("choice %d of filter %d: %s", option, i, alert)
			}
		}
	}
}

// uninjected checks that text of the cluster was not inserted as markup.
func (p *tab) uninjected(page string) {
	p.t.Helper()
	if found := evaluate[string](p, `window.injected ? 'script ran' : [...document.querySelectorAll('main img, main script, main iframe, main svg[onload], a[href^="javascript:"]')].map((e) => e.outerHTML).join('\n')`); found != "" {
		p.t.Errorf("%s: injection: %s", page, found)
	}
}

// another starts an agent without access control, with a configuration.
func another(t *testing.T, name, config string) *house {
	t.Helper()
	h := open(t)
	dir := filepath.Join(h.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "more.hcl")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a, err := cluster.Start(t.Context(), cluster.Options{
		Bin:  os.Args[0],
		Dir:  dir,
		Args: []string{"-dev", "-log-level=WARN", "-config=" + path},
		Log:  &log,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &house{dir: dir, agent: a, browser: h.browser}
}

// equipped starts an agent whose node has a volume, a network, a class and metadata.
func equipped(t *testing.T) *house {
	t.Helper()
	return another(t, "equipped", fmt.Sprintf(`client {
  node_class = "big"
  meta { floor = "2" }
  host_volume "scratch" {
    path      = %q
    read_only = true
  }
  host_network "lan" { cidr = "127.0.0.0/8" }
}
`, t.TempDir()))
}

// registrars registers nodes that run nothing and send no heartbeats.
func (h *house) registrars(t *testing.T, n int) {
	t.Helper()
	for range n {
		r, err := cluster.NewRegistrar(t.Context(), fmt.Sprintf("127.0.0.1:%d", h.agent.RPC))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Lists of nodes are paged by the server, and so are the checks of nodes.
func TestManyNodes(t *testing.T) {
	h := another(t, "nodes", "server {\n  heartbeat_grace = \"1h\"\n}\n")
	h.registrars(t, 60)
	p := h.with(t, "")
	p.show(views[0])
	p.goTo("/ui/clients", "Next")
	p.waitText("1–50")
	p.clickButton("Next")
	p.waitText("51–61")
	p.typeInto("Search", "no such node")
	p.waitText("No nodes match the filter.")
	h.run(t, `job "far" {
  datacenters = ["registrar"]
  group "g" {
    task "t" {
      driver = "mock_driver"
      resources { memory = 9000000 }
    }
  }
}`)
	p.goTo("/ui/evaluations/"+h.evaluation(t, "far", "complete"), "0 of 61 nodes can take one more allocation")
	if rows := evaluate[int](p, "document.querySelectorAll('.explained tbody tr').length"); rows != 20 {
		t.Errorf("the checks of %d nodes are on the first page", rows)
	}
	p.clickButton("More nodes")
	p.waitText("Page 2")
	p.clickButton("More nodes")
	p.clickButton("More nodes")
	p.wait("one node is left", "document.querySelectorAll('.explained tbody tr').length === 1")
	p.waitText("datacenter registrar")
}

// A node that is down is not asked for what only it knows, and can be purged.
func TestDownNode(t *testing.T) {
	h := another(t, "down", "server {\n  heartbeat_grace   = \"1s\"\n  min_heartbeat_ttl = \"1s\"\n}\n")
	h.registrars(t, 1)
	var found []struct{ ID string }
	testpace.Until(t, "the node is down", func() bool {
		h.call(t, "GET", "/v1/nodes?filter="+url.QueryEscape(`Name == "registrar" and Status == "down"`), nil, &found)
		return len(found) == 1
	})
	p := h.with(t, "", "404") // the page can read the node again before it shows the list
	p.show(views[0])
	p.goTo("/ui/clients?status=down", "Down")
	p.click("registrar")
	p.waitText("Drivers")
	p.axe(views[0])
	p.screenshot("node-down")
	p.click("Purge")
	p.inDialog("Purge")
	p.wait("the list of nodes", "location.pathname === '/ui/clients'")
	h.call(t, "GET", "/v1/nodes?filter="+url.QueryEscape(`Name == "registrar"`), nil, &found)
	if len(found) != 0 {
		t.Error("the node is still registered")
	}
}

// A drain is begun, changed and canceled; a node is made ineligible and eligible; metadata is changed.
func TestNodeActions(t *testing.T) {
	h := equipped(t)
	h.run(t, `job "long" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "mock_driver"
      config { run_for = "1h" }
      resources { memory = 20 }
    }
  }
}`) // batch jobs may finish, so that the drain goes on
	h.waitAllocs(t, "long", "running", 1)
	node := h.node(t)
	p := h.with(t, "")
	p.show(views[0])
	p.goTo("/ui/clients/"+node.ID, "Node registered")
	for _, text := range []string{"big", "scratch", "of the configuration", "lan", "127.0.0.0/8", "Issued", "MHz of", "GiB used"} {
		p.waitText(text)
	}
	p.screenshot("node-equipped")
	p.axe(views[0])
	p.click("Make ineligible")
	p.inDialog("Make ineligible")
	p.waitText("Make eligible")
	if got := h.node(t).SchedulingEligibility; got != "ineligible" {
		t.Errorf("the node is %s", got)
	}
	p.click("Make eligible")
	p.inDialog("Make eligible")
	p.waitText("Make ineligible")

	p.click("Drain")
	p.typeInto("Deadline", "soon")
	p.waitText("Use a duration above zero")
	if !evaluate[bool](p, "document.querySelector('dialog button[type=submit]').disabled") {
		t.Error("a drain without a deadline can be begun")
	}
	p.typeInto("Deadline", "1h30m")
	p.check("Leave the allocations of system jobs")
	p.typeInto("Message, kept with the drain", "new disk")
	p.inDialog("Drain")
	p.waitText("The node is draining.")
	p.waitText("1 allocation still on the node")
	p.waitText("in 1h")
	p.waitText("new disk")
	p.screenshot("node-draining")
	p.axe(views[0])
	p.goTo("/ui/clients?scheduling=draining", "Draining")
	p.goTo("/ui/clients/"+node.ID, "The node is draining.")
	if d := h.node(t).DrainStrategy; d == nil || d.Deadline.String() != "1h30m0s" || !d.IgnoreSystemJobs {
		t.Errorf("drain %+v", d)
	}
	p.click("Change drain")
	p.check("Wait without a deadline")
	p.inDialog("Drain")
	p.waitText("There is no deadline.")
	p.click("Cancel drain")
	p.check("Keep the node ineligible")
	p.inDialog("Cancel the drain")
	p.waitText("Make eligible")
	if got := h.node(t); got.DrainStrategy != nil || got.SchedulingEligibility != "ineligible" {
		t.Errorf("after the drain: %+v, %s", got.DrainStrategy, got.SchedulingEligibility)
	}
	h.changeMetadata(t, p, node.ID)
}

func (h *house) changeMetadata(t *testing.T, p *tab, id string) {
	t.Helper()
	p.goTo("/ui/clients/"+id+"/metadata", "floor")
	p.waitText("the configuration")
	p.click("Remove")
	p.inDialog("Remove")
	p.waitText("This node has no metadata.")
	p.click("Add a key")
	p.typeInto("Key", "rack")
	p.typeInto("Value", "r7")
	p.inDialog("Save")
	p.waitText("a change")
	p.click("Change")
	p.typeInto("Value", "r8")
	p.inDialog("Save")
	p.waitText("r8")
	testpace.Until(t, "the servers have the metadata", func() bool { return h.node(t).Meta["rack"] == "r8" })
	p.click("Remove")
	p.inDialog("Remove")
	p.waitText("This node has no metadata.")
	testpace.Until(t, "the servers have no metadata", func() bool { _, found := h.node(t).Meta["rack"]; return !found })
}

// Durations of drains: the unit is needed, and what is not a duration is 0.
func TestDrainDurations(t *testing.T) {
	p := open(t).signedIn(t)
	p.goTo("/ui/settings/tokens", "Appearance")
	got := evaluate[string](p, `(async () => {
		const { parseDuration } = await import(document.querySelector('script[type=module]').src.replace(/[^/]*$/, 'pages/node/drain.js'))
		return ['1h30m', ' 1.5h ', '10s', '', '5', '-1h', '1h x', '0s', '9999999999h'].map(parseDuration).join(' ')
	})()`)
	if want := "5400000000000 5400000000000 10000000000 0 0 0 0 0 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
