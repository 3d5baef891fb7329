package ui

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// visited is a page that every check is applied to.
type visited struct {
	name string // of the screenshots
	path string // with the query
	text string // a text of the page that shows that its data is there
	// allowed are texts of errors on the console that belong to the page, such as "404".
	allowed []string
	// act is done after the page is loaded, such as opening a dialog. It may be nil.
	act func(*tab)
}

// visit shows a page in every view. In each, the page must fit the window and have no finding of
// axe-core.
func (h *house) visit(t *testing.T, v visited) {
	t.Helper()
	t.Run(v.name, func(t *testing.T) {
		p := h.signedIn(t, v.allowed...)
		p.show(views[0])
		p.goTo(v.path, v.text)
		if v.act != nil {
			v.act(p)
		}
		for _, view := range views {
			p.show(view)
			p.wait("the page is drawn", "document.querySelector('main h1') && !document.querySelector('main .loading')")
			p.screenshot(v.name + "-" + view.name)
			p.fits(view)
			p.axe(view)
		}
	})
}

// fits checks that nothing is wider than the window or its dialog, except inside boxes that scroll.
func (p *tab) fits(v view) {
	p.t.Helper()
	wide := evaluate[string](p, `(() => {
		const dialog = [...document.querySelectorAll('dialog[open]')].find((d) => d.scrollWidth > d.clientWidth)
		if (dialog) return 'the dialog ' + dialog.querySelector('h2').innerText
		const limit = document.documentElement.clientWidth
		if (document.documentElement.scrollWidth <= limit) return ''
		const wide = [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > limit + 1 && !e.closest('.table-scroll, pre'))
		return wide.slice(0, 5).map((e) => e.outerHTML.slice(0, 200)).join('\n') || 'the document'
	})()`)
	if wide != "" {
		p.t.Errorf("%s: wider than the window:\n%s", v.name, wide)
	}
}

var axeSource = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("testdata/axe.min.js") })

// finding is a violation that axe-core reports.
type finding struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

// axe fails the test for each finding of axe-core for WCAG 2.2 AA and its best practices.
func (p *tab) axe(v view) {
	p.t.Helper()
	source, err := axeSource()
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("NEEDS_CHROMIUM") == "" {
		p.t.Log("axe-core is not there: run make ui-test, which fetches it")
		return
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if !evaluate[bool](p, "'axe' in window") { // half a megabyte: once for each document
		evaluate[chromedp.Void](p, string(source))
	}
	found := evaluate[[]finding](p,
		`axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => ({ID: v.id, Help: v.help,
		Nodes: v.nodes.slice(0, 3).map((n) => ({HTML: n.html.slice(0, 300), FailureSummary: n.failureSummary}))})))`)
	for _, f := range found {
		var where strings.Builder
		for _, n := range f.Nodes {
			fmt.Fprintf(&where, "\n  %s\n    %s", n.HTML, n.FailureSummary)
		}
		p.t.Errorf("%s: axe-core: %s: %s%s", v.name, f.ID, f.Help, where.String())
	}
}
