package site

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/open-nomad/open-nomad/e2e/chromium"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// stepLimit bounds one step in the browser on a busy machine.
const stepLimit = time.Minute

// tab is a window of Chromium. A message on the console or a request to another host fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // of all URLs that may be requested

	mu     sync.Mutex
	faults []string
}

// open starts Chromium with a profile of its own.
func open(t *testing.T, base string) *tab {
	t.Helper()
	needs(t, "chromium")
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), chromium.Options(path, t.TempDir())...)
	ctx, cancel := chromedp.NewContext(allocator)
	p := &tab{t: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil { // waits until the browser has ended
			t.Errorf("end Chromium: %v", err)
		}
		cancel()
		stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, f := range p.faults {
			t.Errorf("in the browser: %s", f)
		}
	})
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as this context
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatal(err)
	}
	p.do("watch", chromium.Send(network.Enable, network.EnableParams{}), chromium.Send(log.Enable, cdp.Empty{}),
		chromium.Send(runtime.Enable, cdp.Empty{}))
	return p
}

func (p *tab) listen(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		fault = fmt.Sprintf("console: %s", e.Type)
	case *runtime.EventExceptionThrown:
		fault = "exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *log.EventEntryAdded:
		fault = fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, p.base) && !strings.HasPrefix(u, "data:") {
			fault = "request to " + u
		}
	}
	if fault != "" {
		p.mu.Lock()
		p.faults = append(p.faults, fault)
		p.mu.Unlock()
	}
}

func (p *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, stepLimit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// evaluate returns the value of a JavaScript expression. It waits for a promise.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := tryEvaluate[T](p, expression)
	if err != nil {
		p.t.Fatalf("evaluate %.200s: %v", expression, err)
	}
	return value
}

func tryEvaluate[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, stepLimit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// wait waits until a JavaScript expression is true. While another page is being loaded, expressions
// fail.
func (p *tab) wait(expression string) {
	p.t.Helper()
	testpace.Within(p.t, stepLimit, expression, func() bool {
		met, err := tryEvaluate[bool](p, "Boolean("+expression+")")
		return met && err == nil
	})
}

// goTo loads a page of the newest version.
func (p *tab) goTo(name string) {
	p.t.Helper()
	p.do("load "+name, chromedp.Navigate(p.base+"/"+newest+"/"+name))
	p.wait("document.readyState === 'complete'")
}

// show sets the size of the window and the theme of the system.
func (p *tab) show(width, height int64, scheme string) {
	p.t.Helper()
	size := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}
	theme := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	p.do("show", chromium.Send(emulation.SetDeviceMetricsOverride, size),
		chromium.Send(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: theme}))
}

// screenshot keeps a picture of the window in SITE_SCREENS.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("SITE_SCREENS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, stepLimit)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		p.t.Fatalf("screenshot %s: %v", name, err)
	}
}

// search types a query and waits for its results.
func (p *tab) search(query string) (first string) {
	p.t.Helper()
	evaluate[bool](p, fmt.Sprintf("((e) => { e.focus(); e.value = %q; return e.dispatchEvent(new Event('input')) "+
		"})(document.querySelector('#query'))", query))
	p.wait("document.querySelector('#results:not([hidden]) [role=option]')")
	return evaluate[string](p, "document.querySelector('#results a').getAttribute('href')")
}

// TestBrowser reads the site as files and from a server.
func TestBrowser(t *testing.T) {
	dir := site(t)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	for place, base := range map[string]string{"files": "file://" + dir, "server": server.URL} {
		t.Run(place, func(t *testing.T) {
			p := open(t, base)
			p.show(1440, 900, "light")
			p.goTo("index.html")
			p.screenshot(place + "-home-light")
			p.show(1440, 900, "dark")
			p.screenshot(place + "-home-dark")
			if got := evaluate[string](p, "getComputedStyle(document.body).backgroundColor"); got == "rgb(255, 255, 255)" {
				t.Errorf("the background of the dark theme is %s", got)
			}
			for query, want := range map[string]string{
				"drain node":       "node-drain.html",
				"pause scheduling": "evaluations.html",
				"constraint":       "jobspec/constraint.html",
			} {
				if got := p.search(query); got != want {
					t.Errorf("the first result for %q is %s, want %s", query, got, want)
				}
			}
			p.screenshot(place + "-search-dark")
			p.theme()
			p.search("gossip key")
			p.screenshot(place + "-search-light")
			p.follow()
			p.copies()
			p.otherVersion()
			p.show(400, 800, "dark")
			p.goTo("jobspec/group.html")
			p.screenshot(place + "-narrow")
			if over := evaluate[int](p, "document.documentElement.scrollWidth"); over > 400 {
				t.Errorf("a narrow page is %d pixels wide", over)
			}
		})
	}
}

// theme changes the theme by the button; it is kept on the next page.
func (p *tab) theme() {
	p.t.Helper()
	evaluate[bool](p, "document.querySelector('button.theme').click() || true")
	p.goTo("jobs.html")
	if got := evaluate[string](p, "getComputedStyle(document.body).backgroundColor"); got != "rgb(255, 255, 255)" {
		p.t.Errorf("the light theme was chosen, the background is %s", got)
	}
}

// follow opens the second result by the keyboard.
func (p *tab) follow() {
	p.t.Helper()
	want := evaluate[string](p, "document.querySelectorAll('#results a')[1].href")
	evaluate[bool](p, `(() => { const e = document.querySelector('#query'); for (const key of ['ArrowDown', 'ArrowDown'])
		e.dispatchEvent(new KeyboardEvent('keydown', { key })); e.form.requestSubmit(); return true })()`)
	p.wait(fmt.Sprintf("location.href === %q", want))
}

// copies checks that a console block copies its commands only.
func (p *tab) copies() {
	p.t.Helper()
	p.goTo("get-started.html")
	got := evaluate[string](p, `new Promise((resolve) => {
		Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => resolve(text) } })
		document.querySelector('.code .copy').click() })`)
	if !strings.HasPrefix(got, "dpkg -i open-nomad_*.deb\ncp ") || strings.Contains(got, "$ ") {
		p.t.Errorf("copied %q", got)
	}
}

// otherVersion changes the version; the page stays the same.
func (p *tab) otherVersion() {
	p.t.Helper()
	p.goTo("jobspec/group.html")
	evaluate[bool](p, fmt.Sprintf("((e) => { e.value = %q; return e.dispatchEvent(new Event('change')) "+
		"})(document.querySelector('#version'))", older))
	p.wait(fmt.Sprintf("location.href === %q", p.base+"/"+older+"/jobspec/group.html"))
	p.wait(fmt.Sprintf("document.querySelector('#version')?.value === %q", older))
}

// TestContrast measures with axe-core that pages have no violation of WCAG A and AA in both themes.
func TestContrast(t *testing.T) {
	axe, err := os.ReadFile("../ui/testdata/axe.min.js")
	if err != nil {
		if os.Getenv("NEEDS_SITE") != "" {
			t.Fatal("no axe-core: run scripts/ui-vendor axe-core")
		}
		t.Skip("no axe-core: run scripts/ui-vendor axe-core")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(site(t)))) // axe-core reads the styles, which files refuse
	t.Cleanup(server.Close)
	p := open(t, server.URL)
	for _, scheme := range []string{"light", "dark"} {
		p.show(1440, 900, scheme)
		for _, name := range []string{"index.html", "jobspec/group.html", "http-api.html", "commands/job.html", "acl.html", "performance.html"} {
			p.goTo(name)
			p.search("node")
			evaluate[bool](p, "(() => {"+string(axe)+"})(), true")
			got := evaluate[string](p, `axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html + ' ' + n.failureSummary).join('; ')).join('\n'))`)
			if got != "" {
				t.Errorf("%s, %s: %s", name, scheme, got)
			}
		}
	}
}
