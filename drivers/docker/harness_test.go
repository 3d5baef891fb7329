package docker_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(testnet.Private(m))
}

type block = map[string]any

// fixture is a driver with a daemon and a supervisor of its own, which end with the test.
type fixture struct {
	*docker.Driver
	t      testing.TB
	daemon *testdocker.Daemon
	super  *supervise.Client
	dir    string // parent of the allocation directories
	config block
	n      int

	mu     sync.Mutex
	events []*drivers.TaskEvent
}

// newFixture returns a driver with a plugin config.
func newFixture(t testing.TB, config block) *fixture {
	t.Helper()
	return newFixtureOf(t, testdocker.Start(t), config)
}

func newFixtureOf(t testing.TB, daemon *testdocker.Daemon, config block) *fixture {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	dir := t.TempDir()
	super := supervise.NewClient(filepath.Join(dir, "supervise"), log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		super.Close()
	})
	all := block{"endpoint": daemon.Endpoint(), "infra_image": testdocker.Pause}
	maps.Copy(all, config)
	f := &fixture{t: t, daemon: daemon, super: super, dir: dir, config: all}
	f.Driver = f.open(docker.Name, all)
	return f
}

// open returns an instance of the driver, as an agent opens it.
func (f *fixture) open(name string, config block) *docker.Driver {
	f.t.Helper()
	d := docker.New(docker.Config{Name: name, Agent: f.dir, Dir: filepath.Join(f.dir, "mounts", name), Images: filepath.Join(f.dir, "images"),
		Log: slog.New(slog.NewTextHandler(f.t.Output(), nil)), Logs: f.super,
		Pace: docker.Pace{Fingerprint: 100 * time.Millisecond, Retry: 50 * time.Millisecond, Progress: 50 * time.Millisecond,
			Activity: 20 * time.Millisecond}})
	v, err := drivers.Decode(config, d.ConfigSpec())
	if err != nil {
		f.t.Fatal(err)
	}
	if err := d.SetConfig(v); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Report(ctx, func(e *drivers.TaskEvent) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		})
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	return d
}

// messages returns the messages of the events of a task.
func (f *fixture) messages(id string) (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.TaskID == id {
			out = append(out, e.Message)
		}
	}
	return out
}

// task returns the configuration of a new task, with its directories.
func (f *fixture) task(config block) *drivers.TaskConfig {
	f.t.Helper()
	f.n++
	alloc := fmt.Sprintf("00000000-0000-0000-0000-%012d", f.n)
	cfg := &drivers.TaskConfig{ID: alloc + "/web/0000000" + fmt.Sprint(f.n%10), JobID: "shop", JobName: "shop", Namespace: "default",
		AllocID: alloc, TaskGroup: "g",
		Name: "web", NodeID: "node-1", NodeName: "n1", Env: map[string]string{"NOMAD_TASK_NAME": "web"}, AllocDir: filepath.Join(f.dir, alloc),
		Limits: drivers.LinuxResources{MemoryBytes: 64 << 20, CPUShares: 100, MHzPerCore: 1000},
		Log:    drivers.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1}}
	cfg.TaskDir = filepath.Join(cfg.AllocDir, "web")
	cfg.SharedDir, cfg.LocalDir, cfg.SecretsDir = filepath.Join(cfg.AllocDir, "alloc"), filepath.Join(cfg.TaskDir,
		"local"), filepath.Join(cfg.TaskDir, "secrets")
	cfg.LogDir = filepath.Join(cfg.SharedDir, "logs")
	for _, dir := range []string{cfg.LogDir, cfg.LocalDir, cfg.SecretsDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
	f.set(cfg, config)
	return cfg
}

// set sets the config block of a task.
func (f *fixture) set(cfg *drivers.TaskConfig, config block) {
	f.t.Helper()
	all := block{"image": testdocker.Image}
	maps.Copy(all, config)
	v, err := drivers.Decode(all, f.TaskSpec())
	if err != nil {
		f.t.Fatal(err)
	}
	cfg.Config = v
}

// shell is the config of a task that runs a script.
func shell(script string, more ...block) block {
	out := block{"command": "sh", "args": []any{"-c", script}}
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

// start starts a task, which is destroyed with the test.
func (f *fixture) start(cfg *drivers.TaskConfig) *drivers.TaskHandle {
	f.t.Helper()
	h, err := f.StartTask(f.t.Context(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.Driver.DestroyTask(cfg.ID, true) })
	return h
}

// wait returns the result of a task.
func (f *fixture) wait(id string) *drivers.ExitResult {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	exit, err := f.WaitTask(ctx, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return exit
}

// output returns what a task has written to stdout and stderr.
func (f *fixture) output(cfg *drivers.TaskConfig) (stdout, stderr string) {
	f.t.Helper()
	read := func(stream string) string {
		var out strings.Builder
		for i := range 10 {
			text, err := os.ReadFile(filepath.Join(cfg.LogDir, fmt.Sprintf("%s.%s.%d", cfg.Name, stream, i)))
			if err != nil {
				break
			}
			out.Write(text)
		}
		return out.String()
	}
	return read("stdout"), read("stderr")
}

// run runs a script in a task, and returns its result and its output.
func (f *fixture) run(script string, more ...block) (*drivers.ExitResult, string, string) {
	f.t.Helper()
	cfg := f.task(shell(script, more...))
	f.start(cfg)
	exit := f.wait(cfg.ID)
	stdout, stderr := f.output(cfg)
	return exit, stdout, stderr
}

// write writes a file of a task's directory.
func (f *fixture) write(dir, name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// inspect returns a container.
func (f *fixture) inspect(id string) container.InspectResponse {
	f.t.Helper()
	got, err := f.daemon.API.ContainerInspect(f.t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return got.Container
}
