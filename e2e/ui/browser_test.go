package ui

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/open-nomad/open-nomad/e2e/chromium"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// pageLimit bounds one step in the browser on a busy machine.
const pageLimit = time.Minute

// browser is a running Chromium.
type browser struct {
	ctx    context.Context
	cancel func()
}

// findChromium returns the path of Chromium, or skips the test.
func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("NEEDS_CHROMIUM") != "" {
		t.Fatal("no chromium: install the package chromium")
	}
	t.Skip("no chromium: install the package chromium, or set NEEDS_CHROMIUM to fail")
	return ""
}

// startBrowser starts Chromium with a profile of its own. It makes no connection but those of the pages.
func startBrowser(path, profile string) (*browser, error) {
	allocator, stop := chromedp.NewExecAllocator(context.Background(), chromium.Options(path, profile)...)
	ctx, cancel := chromedp.NewContext(allocator)
	b := &browser{ctx, func() { cancel(); stop() }}
	return b, chromedp.Do(ctx) // the browser lives as long as its first window, which no test uses
}

// tab is a window of the browser. It records what must not happen.
type tab struct {
	t    *testing.T
	ctx  context.Context
	host string
	// close closes the window. Each open one has an event stream, and a browser makes six connections.
	close func()

	mu     sync.Mutex
	faults []string
	bytes  float64 // received over the network
}

// tab opens a window. Its faults fail the test, except those that contain one of the allowed texts.
func (b *browser) tab(t *testing.T, address string, allowed ...string) *tab {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, host: u.Host, close: cancel}
	// The window is created by this call. It must outlive the limit of a single step.
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatal(err)
	}
	p.do("open a window", chromium.Send(network.Enable, network.EnableParams{}), chromium.Send(log.Enable, cdp.Empty{}),
		chromium.Send(runtime.Enable, cdp.Empty{}), chromium.Send(page.Enable, page.EnableParams{}))
	t.Cleanup(func() {
		for _, f := range p.unexpected(allowed) {
			t.Errorf("in the browser: %s", f)
		}
	})
	return p
}

// listen records errors on the console, exceptions, dialogs and requests to other hosts.
func (p *tab) listen(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			fault = "console: " + texts(e.Args)
		}
	case *runtime.EventExceptionThrown:
		fault = "exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault = fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		fault = "dialog: " + e.Message
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" && u.Scheme != "about" && u.Host != p.host {
			fault = "request to another host: " + e.Request.URL
		}
	case *network.EventLoadingFinished:
		p.mu.Lock()
		p.bytes += e.EncodedDataLength
		p.mu.Unlock()
	}
	if fault != "" {
		p.mu.Lock()
		p.faults = append(p.faults, fault)
		p.mu.Unlock()
	}
}

func texts(args []*runtime.RemoteObject) string {
	out := []string{}
	for _, a := range args {
		out = append(out, string(a.Value)+a.Description)
	}
	return strings.Join(out, " ")
}

func (p *tab) unexpected(allowed []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.faults), func(f string) bool {
		return slices.ContainsFunc(allowed, func(a string) bool { return strings.Contains(f, a) })
	})
}

// do runs steps and fails the test on an error.
func (p *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageLimit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v\n%s", what, err, strings.Join(p.unexpected(nil), "\n"))
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

// tryEvaluate is evaluate without a failure of the test: a page that is being left has no answer.
func tryEvaluate[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, pageLimit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// received returns how many bytes the window received over the network.
func (p *tab) received() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// withoutCache makes every load a first one.
func (p *tab) withoutCache() {
	p.t.Helper()
	p.do("disable the cache", chromium.Send(network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}))
}

// onNewDocument runs a script in each page before its own scripts.
func (p *tab) onNewDocument(script string) {
	p.t.Helper()
	p.do("add a script", chromium.Send(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}))
}

// goTo loads a path of the agent and waits for a text in the page.
func (p *tab) goTo(path, text string) {
	p.t.Helper()
	p.do("load "+path, chromedp.Navigate("http://"+p.host+path))
	p.waitText(text)
}

// waitText waits until the page contains a text.
func (p *tab) waitText(text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("text %q", text), fmt.Sprintf("document.body?.innerText.includes(%q)", text))
}

// wait waits until a JavaScript expression is true.
func (p *tab) wait(what, expression string) {
	p.t.Helper()
	met, err := false, error(nil) // err is that of the last attempt
	defer func() {
		if !met {
			text, _ := tryEvaluate[string](p, "document.body.innerText")
			p.t.Logf("waited for %s (%v). The page:\n%s\n%s", what, err, text, strings.Join(p.unexpected(nil), "\n"))
		}
	}()
	testpace.Within(p.t, pageLimit, what, func() bool {
		met, err = tryEvaluate[bool](p, "Boolean("+expression+")")
		return met
	})
}

// click clicks on the first enabled button or link with exactly this text.
func (p *tab) click(text string) {
	p.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('button, a')].find((e) => e.innerText.trim() === %q && !e.disabled)", text)
	p.wait("a button "+text, find)
	evaluate[bool](p, "("+find+").click() || true")
}

// clickButton is click for buttons only.
func (p *tab) clickButton(text string) {
	p.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('button')].find((e) => e.innerText.trim() === %q && !e.disabled)", text)
	p.wait("a button "+text, find)
	evaluate[bool](p, "("+find+").click() || true")
}

// pressIn clicks on a button of the open dialog.
func (p *tab) pressIn(text string) {
	p.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('dialog[open] button')].find((e) => e.innerText.trim() === %q && !e.disabled)", text)
	p.wait("a button "+text+" in a dialog", find)
	evaluate[bool](p, "("+find+").click() || true")
}

// inDialog is pressIn, and waits until the dialog has closed.
func (p *tab) inDialog(text string) {
	p.t.Helper()
	p.pressIn(text)
	p.wait("the dialog is closed", "!document.querySelector('dialog[open]')")
}

// typeInto replaces the value of a field.
func (p *tab) typeInto(label, value string) {
	p.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('label')].find((e) => e.innerText.trim() === %q)?.control", label)
	p.wait("a field "+label, find)
	evaluate[bool](p, fmt.Sprintf("((e) => { e.focus(); e.value = %q; return e.dispatchEvent(new Event('input', "+
		"{bubbles: true})) })(%s)", value, find))
}

// check clicks on the box whose label begins with a text.
func (p *tab) check(label string) {
	p.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('label')].find((e) => e.innerText.trim().startsWith(%q))?.control", label)
	p.wait("a box "+label, find)
	evaluate[bool](p, "("+find+").click() || true")
}

// view is how a page is shown.
type view struct {
	name          string
	width, height int64
	scale         float64 // of the text and everything else, as the zoom of a browser
	dark          bool
}

var views = []view{
	{"light", 1280, 800, 1, false}, {"dark", 1280, 800, 1, true},
	{"zoom-200", 640, 400, 2, false}, {"narrow", 400, 800, 1, true},
}

// show changes the size and the theme of the window.
func (p *tab) show(v view) {
	p.t.Helper()
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	p.do("show as "+v.name,
		chromium.Send(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width:             v.width,
			Height:            v.height,
			DeviceScaleFactor: v.scale,
		}),
		chromium.Send(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}))
}

// screenshot keeps a picture of the whole page in UI_SCREENS.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("UI_SCREENS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, pageLimit)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatalf("screenshot %s: %v", name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
