package ui

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// Limits of the first page against a local agent with 1,000 jobs.
const (
	firstBytes    = 300 << 10
	firstTime     = 200 * time.Millisecond
	firstRequests = 12       // the index, its files, the data and the event stream: each takes some milliseconds
	listBytes     = 50 << 10 // of all pages of a list that a test looks at
	// busyTime is the limit on a machine that is busy with other tests: only a page that waits for
	// something exceeds it in all tries. UI_QUIET sets firstTime, for measurements on a quiet machine.
	busyTime = 2 * time.Second
)

// crowd starts an agent without access control.
func crowd(t *testing.T) *house {
	t.Helper()
	h := open(t)
	dir := filepath.Join(h.dir, "crowd")
	var log bytes.Buffer
	a, err := cluster.Start(t.Context(), cluster.Options{Bin: os.Args[0], Dir: dir, Args: []string{"-dev", "-log-level=WARN"}, Log: &log})
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

// fill registers the jobs with numbers from first to last. They are parameterized, so that they need no
// evaluation.
func (h *house) fill(t *testing.T, first, last int) {
	t.Helper()
	var wg sync.WaitGroup
	numbers := make(chan int)
	for range 8 {
		wg.Go(func() {
			for n := range numbers {
				h.call(t, "PUT", "/v1/jobs", m{"Job": m{
					"ID":               fmt.Sprintf("job-%05d", n),
					"Type":             "batch",
					"Datacenters":      []string{"*"},
					"ParameterizedJob": m{},
					"TaskGroups":       []m{{"Name": "g", "Tasks": []m{{"Name": "t", "Driver": "mock_driver"}}}},
				}}, nil)
			}
		})
	}
	for n := first; n <= last; n++ {
		numbers <- n
	}
	close(numbers)
	wg.Wait()
}

func TestManyJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("registers 10,000 jobs")
	}
	h := crowd(t)
	h.fill(t, 1, 1000)
	limit := busyTime
	if os.Getenv("UI_QUIET") != "" {
		limit = firstTime
	}
	for _, page := range []struct{ path, text string }{{"/ui/", "Allocations"}, {"/ui/jobs", "job-00050"}} {
		var bytes, requests float64
		testpace.Once(t, limit, "the first load of "+page.path, func() time.Duration {
			took, size, n := h.firstLoad(t, page.path, page.text)
			t.Logf("%s: drawn after %v", page.path, took)
			bytes, requests = size, n
			return took
		})
		t.Logf("%s: %.0f bytes in %.0f requests", page.path, bytes, requests)
		if bytes > firstBytes || bytes < 10<<10 {
			t.Errorf("%s: %.0f bytes, limit %d", page.path, bytes, firstBytes)
		}
		if requests > firstRequests {
			t.Errorf("%s: %.0f requests, limit %d", page.path, requests, firstRequests)
		}
	}

	start := time.Now()
	h.fill(t, 1001, 10_000)
	t.Logf("9,000 jobs were registered in %v", time.Since(start))
	p := h.with(t, "")
	p.show(views[0])
	p.goTo("/ui/jobs", "job-00050")
	before := p.received()
	if rows := evaluate[int](p, "document.querySelectorAll('tbody tr').length"); rows != 50 {
		t.Errorf("%d rows on the first page", rows)
	}
	p.clickButton("Next")
	p.waitText("job-00051")
	p.waitText("51–100")
	p.clickButton("Next")
	p.waitText("101–150")
	evaluate[bool](p, "history.back() || true")
	p.waitText("51–100")
	p.clickButton("Previous")
	p.waitText("1–50")
	p.typeInto("Search", "job-0987")
	p.waitText("job-09879")
	if rows := evaluate[int](p, "document.querySelectorAll('tbody tr').length"); rows != 10 {
		t.Errorf("%d rows match", rows)
	}
	p.wait("the filter in the URL", "location.search === '?q=job-0987'")
	p.typeInto("Search", "no such job")
	p.waitText("No jobs match the filter.")
	p.axe(views[0])
	p.clickButton("Clear the filter")
	p.waitText("1–50")
	p.screenshot("many-jobs")
	got := p.received() - before
	t.Logf("six pages of 10,000 jobs: %.0f bytes", got)
	if got > listBytes {
		t.Errorf("six pages of 10,000 jobs took %.0f bytes: the server does not page or filter", got)
	}
}

// firstLoad loads a page in a window without a cache. It returns the time until a text of its data is
// drawn, measured by the page, and what was received.
func (h *house) firstLoad(t *testing.T, path, text string) (time.Duration, float64, float64) {
	t.Helper()
	p := h.with(t, "")
	defer p.close()
	p.show(views[0])
	p.withoutCache()
	p.onNewDocument(fmt.Sprintf(`new MutationObserver((_, o) => {
		if (document.body?.textContent.includes(%q)) { o.disconnect(); requestAnimationFrame(() => { window.drawn = performance.now() }) }
	}).observe(document, {childList: true, subtree: true, characterData: true})`, text))
	p.do("load "+path, chromedp.Navigate("http://"+p.host+path))
	p.wait("the time is known", "window.drawn") // unlike waitText, this makes the browser lay out nothing
	ms := evaluate[float64](p, "window.drawn")
	n := evaluate[float64](p, "performance.getEntriesByType('resource').length + 1")
	return time.Duration(ms * float64(time.Millisecond)), p.received(), n
}
