package ui

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

func TestAllocationPage(t *testing.T) {
	h := open(t)
	h.run(t, mock("page", ""))
	id := h.waitAllocs(t, "page", "running", 1)[0].ID
	h.visit(t, visited{name: "allocation", path: "/ui/allocations/" + id, text: "Started"})

	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/allocations/"+id, "Started")
	p.click("Restart")
	p.inDialog("Restart")
	p.waitText("1 restart")
	p.click("Stop")
	p.inDialog("Stop")
	p.waitText("Complete")
	testpace.Until(t, "the allocation is replaced", func() bool {
		allocs := h.waitAllocs(t, "page", "running", 1)
		return allocs[0].ID != id
	})

	absent := h.signedIn(t, "404", "400", "500")
	absent.goTo("/ui/allocations/00000000-0000-0000-0000-000000000000", "Could not read this allocation.")
}

// Each denial is listed once, with one line that allows all of them. Details that are no list are
// ignored.
func TestDenials(t *testing.T) {
	h := open(t)
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/settings/tokens", "Appearance")
	got := evaluate[string](p, `(async () => {
		const base = document.querySelector('script[type=module]').src.replace(/[^/]*$/, '')
		const { denialsOf, mendOf } = await import(base + 'pages/allocation/denials.js')
		const event = (denials) => ({ Details: { denials } })
		const read = { Layer: 'landlock', Rule: 'fs.read_file', Path: '/etc/"x"', Unveil: 'r:/etc/"x"' }
		const found = denialsOf([event(JSON.stringify([read, { Layer: 'seccomp', Rule: 'bpf', Hint: 'h' }])), event(JSON.stringify([read])), event('{'), event('{}'), {}])
		return found.map((d) => d.Rule).join(' ') + ' | ' + mendOf(found) + ' | ' + mendOf([])
	})()`)
	if want := `fs.read_file bpf | unveil = ["r:/etc/\"x\""] | `; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
