package ui

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// A node pool is created, changed and deleted. A change by someone else is not overwritten.
func TestPoolActions(t *testing.T) {
	h := open(t)
	pool := func() (out api.NodePool) { h.call(t, "GET", "/v1/node/pool/edited", nil, &out); return out }
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/node-pools", "built in")
	p.waitText("Live")
	p.click("Create")
	p.typeInto("Name", "default")
	p.pressIn("Create")
	p.waitText("A node pool of this name exists.")
	p.typeInto("Name", "not a name")
	p.wait("the name is refused", "document.querySelector('dialog button[type=submit]').disabled")
	p.typeInto("Name", "edited")
	p.typeInto("Description", "first")
	p.axe(views[0])
	p.screenshot("node-pool-dialog")
	p.inDialog("Create")
	p.waitText("first")

	now := pool()
	h.call(t, "PUT", "/v1/node/pools", m{"Name": "edited", "Description": "first", "Meta": m{"owner": "ml"}}, nil)
	p.waitText("owner")
	p.goTo("/ui/node-pools?q=edited", "first")
	p.click("Change")
	p.typeInto("Description", "second")
	p.choose("Placement", "spread")
	p.choose("Memory", "on")
	p.inDialog("Save")
	p.waitText("spread, memory oversubscription")
	got := pool()
	if got.Description != "second" || got.Meta["owner"] != "ml" || got.NodeIdentityTTL != now.NodeIdentityTTL ||
		got.SchedulerConfiguration == nil {
		t.Errorf("the pool is %+v", got)
	}
	p.click("Change")
	p.waitText("Change the node pool")
	h.call(t, "PUT", "/v1/node/pools", m{"Name": "edited", "Description": "by someone else"}, nil)
	p.typeInto("Description", "third")
	p.pressIn("Save")
	p.waitText("The node pool was changed since you opened this dialog.")
	if got := pool(); got.Description != "by someone else" {
		t.Errorf("the change was overwritten: %q", got.Description)
	}
	p.pressIn("Cancel")
	p.click("Delete")
	p.inDialog("Delete")
	p.waitText("No node pools match the filter.")
}

// choose selects an option of a field.
func (p *tab) choose(label, value string) {
	p.t.Helper()
	find := "[...document.querySelectorAll('label')].find((e) => e.innerText.trim() === '" + label + "')?.control"
	p.wait("a field "+label, find)
	evaluate[bool](p, "((e) => { e.value = '"+value+"'; return e.dispatchEvent(new Event('change', {bubbles: true})) })("+find+")")
}
