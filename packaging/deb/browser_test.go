package deb_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/open-nomad/open-nomad/e2e/chromium"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// window is a window of a Chromium that has the network of a machine.
type window struct {
	host
	ctx   context.Context
	close func() // ends the browser

	mu     sync.Mutex
	faults []string // errors on the console, and exceptions
}

// openBrowser starts Chromium. Errors on its console fail the test when it ends.
func openBrowser(ctx context.Context, h host) *window {
	h.Helper()
	allocator, stop := chromedp.NewExecAllocator(ctx, chromium.Options(h.inNetwork("chromium"), h.TempDir())...)
	ctx, cancel := chromedp.NewContext(allocator)
	w := &window{host: h, ctx: ctx}
	w.close = sync.OnceFunc(func() {
		if err := chromedp.Cancel(ctx); err != nil { // waits until the browser has ended
			h.Errorf("end Chromium: %v", err)
		}
		cancel()
		stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, f := range w.faults {
			h.Errorf("in the browser: %s", f)
		}
	})
	h.Cleanup(w.close)
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as this context
		h.Fatal(err)
	}
	if err := chromedp.Listen(ctx, w.listen); err != nil {
		h.Fatal(err)
	}
	w.do(chromium.Send(log.Enable, cdp.Empty{}), chromium.Send(runtime.Enable, cdp.Empty{}))
	return w
}

func (w *window) listen(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			fault = "console: an error"
			for _, a := range e.Args {
				fault += " " + string(a.Value) + a.Description
			}
		}
	case *runtime.EventExceptionThrown:
		fault = "exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			fault = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if fault != "" {
		w.mu.Lock()
		w.faults = append(w.faults, fault)
		w.mu.Unlock()
	}
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	if err := chromedp.Do(w.ctx, steps...); err != nil {
		w.Fatal(err)
	}
}

// load opens an address.
func (w *window) load(address string) {
	w.Helper()
	w.do(chromedp.Navigate(address))
}

// await waits until a JavaScript expression is true.
func (w *window) await(what, expression string) {
	w.Helper()
	met := false
	defer func() {
		if !met {
			text, err := chromedp.Run(w.ctx, chromedp.Evaluate[string]("location.pathname + '\\n' + document.body.innerText"))
			w.Logf("waited for %s. The page (%v):\n%s", what, err, text)
		}
	}()
	testpace.Within(w, 30*time.Second, "the page shows "+what, func() bool {
		value, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		met = err == nil && value
		return met
	})
}

// screenshot keeps a picture of the page in UI_SCREENS.
func (w *window) screenshot(name string) {
	w.Helper()
	dir := os.Getenv("UI_SCREENS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		w.Fatalf("screenshot %s: %v", name, err)
	}
}
