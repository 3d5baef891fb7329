package taskhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/internal/companion"
	_ "github.com/open-nomad/open-nomad/internal/fetch/getter" // the program is an entry of the test
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// downloads is a task with its directory and the artifacts hook.
type downloads struct {
	t       *testing.T
	hook    taskhook.TaskPrestartHook
	req     *taskhook.TaskPrestartRequest
	control *recorder
}

// recorder records events.
type recorder struct {
	taskhook.Control
	mu     sync.Mutex
	events []*nomad.TaskEvent
}

func (r *recorder) Emit(e *nomad.TaskEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) all() []*nomad.TaskEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func newDownloads(t *testing.T, artifacts ...*nomad.TaskArtifact) *downloads {
	t.Helper()
	fetcher, err := artifact.New(artifact.Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "alloc")
	alloc, err := allocdir.Build(root, "a1")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := alloc.BuildTask(allocdir.TaskConfig{Name: "web", UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dir.Close()
		if err := alloc.Destroy(); err != nil {
			t.Error(err)
		}
	})
	task := &nomad.Task{Name: "web", Artifacts: artifacts, Meta: map[string]string{"x": "value", "up": "../.."}}
	cfg := taskhook.Config{
		Deps: taskhook.Deps{Artifacts: fetcher}, Task: task, Dir: alloc, Control: &recorder{}, Identities: tokens{},
		Log: slog.New(slog.DiscardHandler), Alloc: &nomad.Allocation{ID: "a1", Job: &nomad.Job{}},
	}
	env := taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: cfg.Alloc, Task: task})
	env.SetPaths(taskenv.Paths{Alloc: dir.SharedPath(), Task: dir.LocalPath(), Secrets: dir.SecretsPath()})
	env.SetHook("test", map[string]string{"HOOK": "value"})
	d := &downloads{t: t, control: cfg.Control.(*recorder), req: &taskhook.TaskPrestartRequest{
		Alloc: cfg.Alloc, Task: task, Owner: taskhook.Owner{UID: -1, GID: -1}, Dir: dir, Env: env.Build(),
		Confine: func() (*taskhook.Confinement, error) {
			return &taskhook.Confinement{By: "driver test", Run: runProgram}, nil
		},
	}}
	at := slices.IndexFunc(taskhook.Order(cfg), func(h hook.Hook) bool { return h.Name() == "artifacts" })
	d.hook = taskhook.Order(cfg)[at].(taskhook.TaskPrestartHook)
	return d
}

// runProgram runs a program without confinement.
func runProgram(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.Program.Fd()))
	cmd.Args, cmd.Dir = s.Args, s.Dir
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Stdio[0], s.Stdio[1], s.Stdio[2]
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return &drivers.ExitResult{ExitCode: cmd.ProcessState.ExitCode()}, nil
}

// prestart runs the hook with the state of the previous attempt.
func (d *downloads) prestart(ctx context.Context) (*taskhook.TaskPrestartResponse, error) {
	d.t.Helper()
	resp := &taskhook.TaskPrestartResponse{}
	err := d.hook.Prestart(ctx, d.req, resp)
	if resp.State != nil {
		d.req.PreviousState = resp.State
	}
	return resp, err
}

func (d *downloads) has(name, want string) {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.req.Dir.Path(), name))
	if err != nil || string(b) != want {
		d.t.Errorf("%s has %q, %v, want %q", name, b, err, want)
	}
}

// artifactServer answers with the path and the query, and counts the requests of each path.
func artifactServer(t *testing.T) (url string, count func(path string) int64) {
	t.Helper()
	var counts sync.Map
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := counts.LoadOrStore(r.URL.Path, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		if strings.HasPrefix(r.URL.Path, "/fails") {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, r.URL.Path, "?", r.URL.RawQuery, " ", r.Header.Get("X-Value"))
	}))
	t.Cleanup(s.Close)
	return s.URL, func(path string) int64 {
		n, ok := counts.Load(path)
		if !ok {
			return 0
		}
		return n.(*atomic.Int64).Load()
	}
}

// Every field is interpolated before its destination is checked.
func TestArtifactReferences(t *testing.T) {
	url, _ := artifactServer(t)
	d := newDownloads(t,
		&nomad.TaskArtifact{GetterSource: url + "/${NOMAD_META_x}", GetterOptions: map[string]string{"o": "${HOOK}"},
			GetterHeaders: map[string]string{"X-Value": "${NOMAD_META_x}"}},
		&nomad.TaskArtifact{GetterSource: url + "/a", RelativeDest: "${NOMAD_ALLOC_DIR}/data/"},
		&nomad.TaskArtifact{GetterSource: url + "/b", RelativeDest: "${NOMAD_TASK_DIR}/sub"},
		&nomad.TaskArtifact{GetterSource: url + "/c", RelativeDest: "${NOMAD_SECRETS_DIR}"},
		&nomad.TaskArtifact{GetterSource: url + "/d?q=1", GetterMode: "file"},
		&nomad.TaskArtifact{GetterSource: url + "/e", RelativeDest: "/local/abs"},
	)
	resp, err := d.prestart(t.Context())
	if err != nil || !resp.Done {
		t.Fatalf("Prestart() = %v, done %v", err, resp.Done)
	}
	for name, want := range map[string]string{
		"local/value": "/value?o=value value", "../alloc/data/a": "/a? ", "local/sub/b": "/b? ", "secrets/c": "/c? ", "local/d": "/d?q=1 ",
		"local/abs/e": "/e? ",
	} {
		d.has(name, want)
	}
	digests := resp.ArtifactDigests
	if names := slices.Sorted(maps.Keys(digests)); !slices.Equal(names,
		[]string{"../alloc/data/a", "local/abs/e", "local/d", "local/sub/b", "local/value", "secrets/c"}) ||
		!strings.HasPrefix(digests["local/d"], "sha256:") {
		t.Errorf("digests = %v", digests)
	}
	if strings.Contains(resp.State["fetched"], "value") && strings.Contains(resp.State["fetched"], "X-Value") {
		t.Errorf("the state contains headers: %s", resp.State["fetched"])
	}
	events := d.control.all()
	if len(events) != 1 || events[0].Type != "Downloading Artifacts" ||
		events[0].DisplayMessage != "Client is downloading artifacts, confined by driver test" ||
		events[0].Details["confined_by"] != "driver test" {
		t.Errorf("events: %+v", events)
	}

	d = newDownloads(t, &nomad.TaskArtifact{GetterSource: url + "/a", RelativeDest: "${NOMAD_META_up}/x"})
	if _, err := d.prestart(t.Context()); err == nil || !strings.Contains(err.Error(), "outside the task's directory") {
		t.Errorf("Prestart() with ../.. in a reference = %v", err)
	}
}

// What was downloaded is not downloaded again after a failure, and the failure is recoverable.
func TestArtifactRetry(t *testing.T) {
	url, count := artifactServer(t)
	d := newDownloads(t, &nomad.TaskArtifact{GetterSource: url + "/good"},
		&nomad.TaskArtifact{GetterSource: "${NOMAD_META_y}" + url + "/fails?token=secret"},
		&nomad.TaskArtifact{GetterSource: url + "/fails?token=secret"})
	d.req.Task.Artifacts[1].GetterSource = url + "/fails2"
	for range 2 {
		resp, err := d.prestart(t.Context())
		var fault *taskhook.Fault
		var recoverable *drivers.RecoverableError
		if !errors.As(err, &fault) || !errors.As(err, &recoverable) || resp.Done {
			t.Fatalf("Prestart() = %v, done %v", err, resp.Done)
		}
		e := fault.Event()
		if want := `failed to download artifact "` + url +
			`/fails": bad response code: 404 (2 artifacts failed)`; e.Type != "Failed Artifact Download" || e.DownloadError != want {
			t.Errorf("event %s: %s, want %s", e.Type, e.DownloadError, want)
		}
	}
	if n := count("/good"); n != 1 {
		t.Errorf("the good artifact was downloaded %d times", n)
	}
	if n := count("/fails"); n != 2 {
		t.Errorf("the failing artifact was tried %d times", n)
	}
	for _, a := range d.req.Task.Artifacts[1:] {
		a.GetterSource = url + "/good2"
	}
	resp, err := d.prestart(t.Context())
	if err != nil || !resp.Done {
		t.Errorf("Prestart() = %v, done %v", err, resp.Done)
	}
	d.req.Running = true
	if _, err := d.prestart(t.Context()); err != nil || count("/good") != 1 {
		t.Errorf("Prestart() of a running task = %v", err)
	}
}

// A directory that a killed agent left is removed.
func TestArtifactLeftovers(t *testing.T) {
	url, _ := artifactServer(t)
	d := newDownloads(t, &nomad.TaskArtifact{GetterSource: url + "/a"})
	left := filepath.Join(d.req.Dir.Path(), ".nomad-artifact-old/work/deep")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.prestart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(d.req.Dir.Path(), ".nomad-artifact-*")); err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}

// A long download reports its progress, and a kill ends it.
func TestArtifactProgress(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(4<<20))
		w.Write(make([]byte, 1<<20)) //nolint:errcheck // the rest never comes
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	d := newDownloads(t, &nomad.TaskArtifact{GetterSource: s.URL + "/slow?token=secret"})
	ended := make(chan error)
	go func() {
		_, err := d.prestart(ctx)
		ended <- err
	}()
	testpace.Until(t, "progress", func() bool { return len(d.control.all()) > 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Prestart() after a kill = %v", err)
	}
	e := d.control.all()[1]
	if want := "Downloaded 1.0 MiB of 4.0 MiB (25 %) from " + s.URL + "/slow"; e.DisplayMessage != want ||
		e.Details["downloaded_bytes"] != "1048576" || e.Details["total_bytes"] != "4194304" {
		t.Errorf("event %q %v, want %q", e.DisplayMessage, e.Details, want)
	}
}
