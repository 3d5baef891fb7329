package artifact_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// newCached returns a Fetcher with a cache in dir.
func newCached(t testing.TB, dir string) *artifact.Fetcher {
	t.Helper()
	cfg := config()
	cfg.CacheDir, cfg.CacheSize = dir, 1<<20
	f, err := artifact.New(cfg, discard)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// counted returns a handler and the number of its calls.
func counted(text []byte) (http.HandlerFunc, *atomic.Int64) {
	n := new(atomic.Int64)
	return func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.Write(text) //nolint:errcheck // a response
	}, n
}

func TestCached(t *testing.T) {
	dir := t.TempDir()
	archive := gz(t, tarOf(t, []entry{{name: "a", text: "archived"}}))
	plain, nPlain := counted([]byte("plain"))
	packed, nPacked := counted(archive)
	url := serve(t, map[string]http.HandlerFunc{"/plain": plain, "/a.tgz": packed, "/sums": content(digest("plain")[7:] + "  plain\n")})
	f := newCached(t, dir)
	list := func() []*nomad.TaskArtifact {
		return []*nomad.TaskArtifact{
			{GetterSource: url + "/plain?checksum=" + digest("plain"), RelativeDest: "local/"},
			{GetterSource: url + "/a.tgz?checksum=" + digest(string(archive)), RelativeDest: "local/x/"},
		}
	}
	for i := range 4 {
		if i == 2 {
			f = newCached(t, dir) // as after a restart
		}
		h := withFetcher(t, f)
		for _, a := range list() {
			h.gets(a)
		}
		h.has("local/plain", "plain")
		h.has("local/x/a", "archived")
		info, err := os.Stat(filepath.Join(h.local, "plain"))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); info.Mode() != 0o644 || st.Nlink != 1 || os.Geteuid() == 0 && st.Uid != taskUID {
			t.Errorf("allocation %d: the file has mode %v, %d names and owner %d", i, info.Mode(), st.Nlink, st.Uid)
		}
		want := 3 // downloads and unpacks
		if i > 0 {
			want = 1
		}
		if len(h.runs) != want {
			t.Errorf("allocation %d: %d programs, want %d", i, len(h.runs), want)
		}
		// A task that changes its copy does not change the cache.
		if err := os.WriteFile(filepath.Join(h.local, "plain"), []byte("evil"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if nPlain.Load() != 1 || nPacked.Load() != 1 {
		t.Errorf("%d and %d downloads", nPlain.Load(), nPacked.Load())
	}
	if s := f.Cache().Status(); s.Hits != 4 || s.Misses != 0 || s.Files != 2 {
		t.Errorf("status %+v", s)
	}
	// Without a checksum, or with one that only the server knows, the artifact is downloaded again.
	h := withFetcher(t, f)
	for range 2 {
		h.gets(&nomad.TaskArtifact{GetterSource: url + "/plain"})
		h.gets(&nomad.TaskArtifact{GetterSource: url + "/plain?checksum=file:" + url + "/sums"})
	}
	if nPlain.Load() != 5 {
		t.Errorf("%d downloads", nPlain.Load())
	}
}

// The cache gives an artifact only to jobs that could download it, and only what has its checksum.
func TestCachePoisoning(t *testing.T) {
	f := newCached(t, t.TempDir())
	secret := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		io.WriteString(w, "secret") //nolint:errcheck // a response
	}
	url := serve(t, map[string]http.HandlerFunc{"/secret": secret, "/evil": content("evil"), "/other/secret": content("evil")})
	h := withFetcher(t, f)
	sum := "?checksum=" + digest("secret")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/secret" + sum, GetterHeaders: map[string]string{"Authorization": "token"}})
	attacker := withFetcher(t, f)
	attacker.refused(&nomad.TaskArtifact{GetterSource: url + "/secret" + sum}, "403")
	attacker.refused(&nomad.TaskArtifact{GetterSource: url + "/evil" + sum}, "checksum does not match")
	attacker.refused(&nomad.TaskArtifact{GetterSource: url + "/other/secret" + sum,
		GetterHeaders: map[string]string{"Authorization": "token"}}, "checksum does not match")
	// A captured program cannot add content under another checksum.
	captive := withFetcher(t, f)
	captive.task.Run = captured(func(work string, w io.Writer) error {
		if err := os.MkdirAll(work+"/out", 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(work+"/out/app", []byte("evil"), 0o644); err != nil {
			return err
		}
		return done(w, fetch.Message{File: "out/app"})
	}).run
	captive.refused(&nomad.TaskArtifact{GetterSource: "https://host/app?checksum=" + digest("good")}, "checksum does not match")
	if s := f.Cache().Status(); s.Files != 1 || s.Keys != 1 {
		t.Errorf("status %+v, want one file", s)
	}
}

// Many allocations at once cause one download. When it fails, the next one tries.
func TestOneDownload(t *testing.T) {
	f := newCached(t, t.TempDir())
	started, release := make(chan struct{}, 100), make(chan struct{})
	var n atomic.Int64
	url := serve(t, map[string]http.HandlerFunc{"/a": func(w http.ResponseWriter, _ *http.Request) {
		started <- struct{}{}
		<-release
		if n.Add(1) == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "text") //nolint:errcheck // a response
	}})
	var all sync.WaitGroup
	var failed atomic.Int64
	for range 12 {
		h := withFetcher(t, f)
		all.Go(func() {
			r := h.Fetch(t.Context(), h.task,
				[]*nomad.TaskArtifact{{GetterSource: url + "/a?checksum=" + digest("text"), RelativeDest: "local/"}})[0]
			if r.Err != nil {
				failed.Add(1)
				return
			}
			h.has("local/a", "text")
		})
	}
	<-started
	close(release)
	all.Wait()
	if n.Load() != 2 || failed.Load() != 1 {
		t.Errorf("%d downloads, %d allocations failed, want 2 and 1", n.Load(), failed.Load())
	}
}

// Each allocation downloads what does not fit into the cache.
func TestTooLargeForCache(t *testing.T) {
	cfg := config()
	cfg.CacheDir, cfg.CacheSize = t.TempDir(), 3
	f := fetcher(t, cfg)
	handler, n := counted([]byte("text"))
	url := serve(t, map[string]http.HandlerFunc{"/a": handler})
	var waits sync.WaitGroup
	for range 4 {
		h := withFetcher(t, f)
		waits.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r := h.Fetch(ctx, h.task, []*nomad.TaskArtifact{{GetterSource: url + "/a?checksum=" + digest("text"), RelativeDest: "local/"}})[0]
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
	waits.Wait()
	if s := f.Cache().Status(); s.Files != 0 || n.Load() != 4 {
		t.Errorf("%d downloads, status %+v", n.Load(), s)
	}
}

// An allocation that is stopped while it waits for the download of another does not wait longer.
func TestWaitCancelled(t *testing.T) {
	f := newCached(t, t.TempDir())
	first, second := withFetcher(t, f), withFetcher(t, f)
	a := []*nomad.TaskArtifact{{GetterSource: "https://host/a?checksum=" + digest("text"), RelativeDest: "local/"}}
	running, end := make(chan struct{}), make(chan struct{})
	first.task.Run = func(context.Context, *drivers.Sidecar) (*drivers.ExitResult, error) {
		close(running)
		<-end
		return nil, fmt.Errorf("ended")
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		first.Fetch(t.Context(), first.task, a)
	}()
	<-running
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := second.Fetch(ctx, second.task, a)[0]; r.Err == nil {
		t.Error("a cancelled download succeeds")
	}
	close(end)
	<-finished
}
