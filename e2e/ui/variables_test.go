package ui

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// putVariable stores a variable in the namespace default.
func (h *house) putVariable(t testing.TB, path string, items m) {
	t.Helper()
	h.call(t, "PUT", "/v1/var/"+path, m{"Items": items}, nil)
}

// variable reads the items of a variable of the namespace default.
func (h *house) variable(t testing.TB, path string) map[string]string {
	t.Helper()
	var out struct{ Items map[string]string }
	h.call(t, "GET", "/v1/var/"+path, nil, &out)
	return out.Items
}

// hides fails the test if the document contains a text, also in attributes and in the values of fields.
func (p *tab) hides(secret string) {
	p.t.Helper()
	if found := evaluate[bool](p, fmt.Sprintf(`document.documentElement.outerHTML.includes(%[1]q) || [...document.querySelectorAll('input, textarea')].some((e) => e.value.includes(%[1]q))`, secret)); found {
		p.t.Errorf("the document contains %q", secret)
	}
}

func TestVariablePages(t *testing.T) {
	h := open(t)
	h.run(t, mock("reader", ""))
	h.putVariable(t, "nomad/jobs/reader/web/server", m{"password": "s3cr3t-a", "user": "web"})
	h.putVariable(t, "shop/eu/db", m{"dsn": "s3cr3t-b"})
	h.putVariable(t, "shop/eu/cache", m{"dsn": "s3cr3t-c"})
	h.putVariable(t, "shop/settings", m{"color": "s3cr3t-d"})
	h.token(t, `namespace "default" { variables { path "shop/*" { capabilities = ["read"] } } }`, 0)

	h.visit(t, visited{name: "variables", path: "/ui/variables", text: "shop/"})
	h.visit(t, visited{name: "variables-folder", path: "/ui/variables/path/shop", text: "settings"})
	h.visit(t, visited{name: "variables-search", path: "/ui/variables?search=1&q=eu/", text: "shop/eu/db"})
	h.visit(t, visited{name: "variable", path: "/ui/variables/var/shop/eu/db@default", text: "shop/*"})
	h.visit(t, visited{name: "variable-own", path: "/ui/variables/var/nomad/jobs/reader/web/server@default", text: "workload's own path"})
	h.visit(t, visited{name: "variable-edit", path: "/ui/variables/var/shop/eu/db@default/edit", text: "Add an item", act: func(p *tab) {
		p.click("Show and edit item 1")
		p.wait("the value", "document.querySelector('textarea').value === 's3cr3t-b'")
	}})
	h.visit(t, visited{name: "variable-new", path: "/ui/variables/new?path=shop/", text: "Create a variable"})

	p := h.signedIn(t, "404")
	p.show(views[0])
	p.goTo("/ui/variables", "nomad/")
	p.click("shop/")
	p.click("eu/")
	p.click("db")
	p.waitText("dsn")
	p.hides("s3cr3t")
	p.click("Show")
	p.waitText("s3cr3t-b")
	p.click("Hide")
	p.hides("s3cr3t")
	p.click("Edit")
	p.waitText("Add an item")
	p.hides("s3cr3t")
	p.goTo("/ui/variables/var/no/such/variable@default", "Could not read this variable.")
}

// What the form writes is what is stored: values that stay hidden are kept.
func TestVariableActions(t *testing.T) {
	h := open(t)
	p := h.signedIn(t, "404", "409")
	p.show(views[0])
	p.goTo("/ui/variables/new", "Add an item")
	p.typeInto("Path", "made/here")
	p.typeInto("Name of item 1", "a")
	p.typeInto("Value of item 1", "one\ntwo → שלום")
	p.click("Add an item")
	p.typeInto("Name of item 2", "b")
	p.typeInto("Value of item 2", "keep")
	p.clickButton("Create")
	p.wait("the page of the variable", "location.pathname === '/ui/variables/var/made/here@default'")
	p.waitText("Who may read it")
	if got := h.variable(t, "made/here"); got["a"] != "one\ntwo → שלום" || got["b"] != "keep" {
		t.Errorf("created %q", got)
	}

	p.click("Edit")
	p.click("Remove item 1")
	p.click("Add an item")
	p.typeInto("Name of item 2", "b")
	p.waitText("Another item has this name.")
	p.typeInto("Name of item 2", "c")
	p.typeInto("Value of item 2", "new")
	p.clickButton("Save")
	p.waitText("Edit")
	if got := h.variable(t, "made/here"); len(got) != 2 || got["b"] != "keep" || got["c"] != "new" {
		t.Errorf("changed to %q", got)
	}

	p.click("Delete")
	p.waitText("They cannot be restored.")
	h.putVariable(t, "made/here", m{"b": "other"})
	p.pressIn("Delete")
	p.waitText("Someone else changed this variable since you opened this dialog.")
	if got := h.variable(t, "made/here"); got["b"] != "other" {
		t.Errorf("after the conflict: %q", got)
	}
	p.pressIn("Cancel")
	p.waitText("Modify index\n" + h.index(t, "made/here"))
	p.click("Delete")
	p.inDialog("Delete")
	p.wait("the folder", "location.pathname === '/ui/variables/path/made'")
}

// Two windows change one variable: the second sees both values of each item, and loses nothing.
func TestVariableConflict(t *testing.T) {
	h := open(t)
	h.putVariable(t, "two/windows", m{"both": "base", "mine": "base", "theirs": "base", "same": "base"})
	first, second := h.signedIn(t, "409"), h.signedIn(t, "409")
	for _, p := range []*tab{first, second} {
		p.show(views[0])
		p.goTo("/ui/variables/var/two/windows@default/edit", "Add an item")
	}
	set := func(p *tab, item int, value string) {
		t.Helper()
		p.click(fmt.Sprintf("Show and edit item %d", item))
		p.typeInto(fmt.Sprintf("Value of item %d", item), value)
	}
	set(first, 1, "by the first")   // both
	set(first, 4, "by the first")   // theirs
	set(second, 1, "by the second") // both
	set(second, 2, "by the second") // mine
	first.clickButton("Save")
	first.waitText("Who may read it")

	second.clickButton("Save")
	second.waitText("Someone else changed this variable.")
	second.waitText("by the first")
	second.waitText("by the second")
	second.waitText("1 without a choice")
	second.screenshot("variable-conflict-light")
	for _, v := range views {
		second.show(v)
		second.screenshot("variable-conflict-" + v.name)
		second.fits(v)
		second.axe(v)
	}
	if got := h.variable(t, "two/windows"); got["both"] != "by the first" || got["mine"] != "base" {
		t.Errorf("the conflict wrote %q", got)
	}
	second.show(views[0])
	second.click("Back to my changes")
	second.waitText("Add an item")
	second.clickButton("Save")
	second.check("Your value")
	h.putVariable(t, "two/windows", m{"both": "by a third", "mine": "base", "theirs": "by the first", "same": "base"})
	second.clickButton("Save the chosen values")
	second.waitText("by a third")
	second.check("Your value")
	second.clickButton("Save the chosen values")
	second.waitText("Who may read it")
	got := h.variable(t, "two/windows")
	if got["both"] != "by the second" || got["mine"] != "by the second" || got["theirs"] != "by the first" || got["same"] != "base" {
		t.Errorf("after the conflict: %q", got)
	}
}

// The variable is deleted while a window changes it: its values can still be stored.
func TestVariableDeletedMeanwhile(t *testing.T) {
	h := open(t)
	h.putVariable(t, "gone/soon", m{"a": "base"})
	p := h.signedIn(t, "409", "404")
	p.show(views[0])
	p.goTo("/ui/variables/var/gone/soon@default/edit", "Add an item")
	p.click("Show and edit item 1")
	p.typeInto("Value of item 1", "mine")
	h.call(t, "DELETE", "/v1/var/gone/soon?cas="+h.index(t, "gone/soon"), nil, nil)
	p.waitText("This variable was deleted.")
	p.clickButton("Save")
	p.waitText("no such item")
	p.check("Your value")
	p.clickButton("Save the chosen values")
	p.waitText("Who may read it")
	if got := h.variable(t, "gone/soon"); got["a"] != "mine" {
		t.Errorf("stored %q", got)
	}
}

// index returns the modify index of a variable of the namespace default.
func (h *house) index(t testing.TB, path string) string {
	t.Helper()
	var out struct{ ModifyIndex uint64 }
	h.call(t, "GET", "/v1/var/"+path, nil, &out)
	return fmt.Sprint(out.ModifyIndex)
}

// A token that may only list a variable sees that it exists, and no value.
func TestVariableWithoutRights(t *testing.T) {
	h := open(t)
	h.putVariable(t, "locked/away", m{"a": "s3cr3t"})
	_, secret := h.token(t, `namespace "default" { variables { path "locked/*" { capabilities = ["list", "write"] } } }`, 0)
	p := h.with(t, secret, "403", "409")
	p.show(views[0])
	p.goTo("/ui/variables/path/locked", "away")
	p.click("away")
	p.waitText("Your token may not read this variable.")
	p.waitText("Only a management token may list who else can read it.")
	p.axe(views[0])
	p.goTo("/ui/variables/new?path=locked/away", "Add an item")
	p.typeInto("Name of item 1", "a")
	p.typeInto("Value of item 1", "mine")
	p.clickButton("Create")
	p.waitText("Your token may not read it, so the changes cannot be compared.")
	p.hides("s3cr3t")
	if got := h.variable(t, "locked/away"); got["a"] != "s3cr3t" {
		t.Errorf("overwrote it: %q", got)
	}
}

// The items of variables can have any name and value. Folders page without repeating one.
func TestHostileVariables(t *testing.T) {
	h := open(t)
	h.putVariable(t, "hostile/"+strings.Repeat("w", 100), m{hostile("item"): hostile("value")})
	p := h.signedIn(t)
	for _, path := range []string{"/ui/variables/path/hostile",
		"/ui/variables/var/hostile/" + strings.Repeat("w", 100) + "@default", "/ui/variables/var/" + url.PathEscape(hostile("x")) + "@default",
		"/ui/variables/path/" + url.PathEscape(hostile("x"))} {
		p := p
		if strings.Contains(path, "onerror") {
			p = h.signedIn(t, "404", "400")
		}
		p.show(views[0])
		p.goTo(path, "Variables")
		p.wait("the data", "!document.querySelector('main .loading')")
		evaluate[bool](p, "[...document.querySelectorAll('button')].find((e) => e.innerText === 'Show all values')?.click() || true")
		for _, v := range []view{views[0], views[3]} {
			p.show(v)
			p.fits(v)
		}
		p.noInjection(path)
	}
	p.screenshot("variable-hostile")

	got := evaluate[string](p, `(async () => {
		const base = document.querySelector('script[type=module]').src.replace(/[^/]*$/, '')
		const { entriesOf, afterLast } = await import(base + 'pages/variables.js')
		const list = ['a/b/1', 'a/b/2', 'a/c', 'a/d/e'].map((Path) => ({ Namespace: 'n', Path }))
		const entries = entriesOf(list, 'a/')
		return entries.map((e) => e.folder ?? e.Path).join(' ') + ' | ' + afterLast(entries.at(-1), 'a/', 'n.a/d/f') + ' ' + afterLast(entries.at(-1), 'a/', 'n.a/e')
	})()`)
	if want := "b a/c d | n.a/d0 n.a/e"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// noInjection fails the test if text of the cluster became markup.
func (p *tab) noInjection(where string) {
	p.t.Helper()
	if found := evaluate[string](p, `window.injected ? 'script ran' : [...document.querySelectorAll('main img, main script, main iframe, main svg[onload], a[href^="javascript:"]')].map((e) => e.outerHTML).join('\n')`); found != "" {
		p.t.Errorf("%s: injection: %s", where, found)
	}
}
