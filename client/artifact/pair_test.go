package artifact_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/fetch"
	_ "github.com/open-nomad/open-nomad/internal/fetch/getter" // the program is an entry of the test
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/memfd"
	"github.com/open-nomad/open-nomad/internal/sidecar"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// taskUID is the user of tasks in tests that run as root.
const taskUID = 80017

// program is this test, which contains the program and is never older than its source. The go command
// makes the file executable for its own user only.
var program = sync.OnceValues(func() (*os.File, error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer self.Close()
	fd, err := memfd.ReadProgram("artifact-test", self)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "artifact-test"), nil
})

// groups are the control groups of all tests.
var groups process.Groups

// discard is a log that nobody reads.
var discard = slog.New(slog.DiscardHandler)

// harness is an allocation with a task, and a Fetcher.
type harness struct {
	*artifact.Fetcher
	t        testing.TB
	alloc    *allocdir.Dir
	task     *artifact.Task
	local    string // path of the task's local directory
	config   *drivers.TaskConfig
	embedded bool // run the program that is part of nomad

	mu   sync.Mutex
	runs []drivers.Sidecar // programs that were run
}

func config() artifact.Config {
	d := 30 * time.Second
	return artifact.Config{
		Limits:   fetch.Limits{Download: 8 << 20, Unpacked: 16 << 20, Files: 200},
		Timeouts: fetch.Timeouts{HTTP: d, Git: d, Hg: d, GCS: d, S3: d},
	}
}

// number makes the names of control groups unique.
var number atomic.Int64

// newHarness returns an allocation for a Fetcher with the configuration.
func newHarness(t testing.TB, cfg artifact.Config) *harness {
	t.Helper()
	return withFetcher(t, fetcher(t, cfg))
}

func fetcher(t testing.TB, cfg artifact.Config) *artifact.Fetcher {
	t.Helper()
	f, err := artifact.New(cfg, discard)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func withFetcher(t testing.TB, f *artifact.Fetcher) *harness {
	t.Helper()
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIFiles {
		t.Skipf("needs Landlock: ABI %d, %v", abi, err)
	}
	base := t.TempDir()
	for _, dir := range []string{base, filepath.Dir(base)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(base, "allocs")
	alloc, err := allocdir.Build(root, "a1")
	if err != nil {
		t.Fatal(err)
	}
	uid := -1
	if os.Geteuid() == 0 {
		uid = taskUID
	}
	dir, err := alloc.BuildTask(allocdir.TaskConfig{Name: "web", UID: uid, GID: uid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dir.Close()
		alloc.Close()
		if err := allocdir.Destroy(root, "a1"); err != nil {
			t.Error(err)
		}
	})
	h := &harness{Fetcher: f, t: t, alloc: alloc, local: dir.LocalPath()}
	h.config = &drivers.TaskConfig{
		ID: "a1/web/1", AllocID: fmt.Sprintf("artifact-%d-%d", os.Getpid(), number.Add(1)), Name: "web", AllocDir: alloc.Path(),
		TaskDir:   dir.Path(),
		SharedDir: alloc.SharedPath(), LocalDir: dir.LocalPath(), SecretsDir: dir.SecretsPath(), CgroupParent: "nomad-test.slice",
		Limits: drivers.LinuxResources{MemoryBytes: 256 << 20, CPUShares: 100, MHzPerCore: 2000},
	}
	if uid >= 0 {
		h.config.User = fmt.Sprint("nomad-", uid)
	}
	h.task = &artifact.Task{AllocPath: alloc.Path(), Dir: dir, UID: uid, GID: uid, Run: h.confine}
	return h
}

// confine runs the program as the client does for drivers without a sandbox of their own.
func (h *harness) confine(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	h.mu.Lock()
	h.runs = append(h.runs, *s)
	h.mu.Unlock()
	if !h.embedded {
		var err error
		if s.Program, err = program(); err != nil {
			return nil, err
		}
		for _, name := range sidecar.SharedLibraries {
			s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "rx", Name: name, Optional: true})
		}
	}
	return (&process.Confiner{Sidecars: &groups}).Confine(ctx, h.config, s)
}

// get fetches one artifact.
func (h *harness) get(a *nomad.TaskArtifact) artifact.Result {
	h.t.Helper()
	if a.RelativeDest == "" {
		a.RelativeDest = "local/"
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer cancel()
	r := h.Fetch(ctx, h.task, []*nomad.TaskArtifact{a})[0]
	h.clean()
	return r
}

// clean checks that no directory of a download remains.
func (h *harness) clean() {
	h.t.Helper()
	names, err := filepath.Glob(filepath.Join(h.task.Dir.Path(), ".nomad-artifact-*"))
	if err != nil || len(names) > 0 {
		h.t.Errorf("left in the task's directory: %v, %v", names, err)
	}
}

// refused checks that the artifact fails with a text, and that nothing arrives.
func (h *harness) refused(a *nomad.TaskArtifact, want string) {
	h.t.Helper()
	before := tree(h.t, h.alloc.Path())
	r := h.get(a)
	if r.Err == nil || !strings.Contains(r.Err.Error(), want) {
		h.t.Errorf("Fetch(%s) = %q, %v, want an error with %q", a.GetterSource, r.Name, r.Err, want)
	}
	if after := tree(h.t, h.alloc.Path()); after != before {
		h.t.Errorf("the refused artifact %s changed the allocation from\n%sto\n%s", a.GetterSource, before, after)
	}
}

// gets checks that the artifact succeeds.
func (h *harness) gets(a *nomad.TaskArtifact) artifact.Result {
	h.t.Helper()
	r := h.get(a)
	if r.Err != nil {
		h.t.Errorf("Fetch(%s) = %v", a.GetterSource, r.Err)
	}
	return r
}

// has checks the content of a file in the task's directory.
func (h *harness) has(name, want string) {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join(h.task.Dir.Path(), name))
	if err != nil || string(b) != want {
		h.t.Errorf("%s has %.40q, %v, want %.40q", name, b, err, want)
	}
}

// tree lists the entries below dir with their modes, owners and sizes.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		if strings.HasPrefix(rel, "web/tmp/") {
			return nil // mount points of a test below /tmp
		}
		st := info.Sys().(*syscall.Stat_t)
		out.WriteString(info.Mode().String() + " " + rel)
		if !d.IsDir() {
			out.WriteString(" " + time.Duration(st.Size).String() + " of " + time.Duration(st.Uid).String())
		}
		out.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// serve starts a server with a handler for each path.
func serve(t *testing.T, routes map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for route, h := range routes {
		mux.HandleFunc(route, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// content returns a handler that sends text.
func content[T string | []byte](text T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(text)) //nolint:errcheck // the client reports a short body
	}
}
