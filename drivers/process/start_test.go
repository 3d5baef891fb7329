package process_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// recorder is an Observer that records its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) record(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *recorder) Starting(*drivers.TaskConfig, *process.Program) { r.record("starting") }
func (r *recorder) Running(t *proc.Task)                           { r.record("running, with a PID: %t", t.PID > 0) }
func (r *recorder) Exited(context.Context, string)                 { r.record("exited") }
func (r *recorder) Removed(string)                                 { r.record("removed") }

// shell returns the Tasks of a driver that runs a program without a sandbox.
func shell(t *testing.T, super *supervise.Client, o process.Observer, argv ...string) *process.Tasks {
	t.Helper()
	prepare := func(cfg *drivers.TaskConfig) (*process.Program, error) {
		p := &process.Program{Policy: &sandbox.Policy{Argv: argv, Dir: cfg.TaskDir, KeepCapabilities: os.Geteuid() == 0, KeepPrivileges: true,
			Seccomp: sandbox.SeccompNone}}
		var err error
		p.Declared, err = sandbox.Declare(p.Policy)
		return p, err
	}
	return process.NewTasks(process.Config{Name: "shell", Kind: &drivers.Kind{Name: "shell"}, Supervisor: super, Prepare: prepare,
		Observer: o})
}

func TestStartTask_Observer(t *testing.T) {
	super := supervise.NewClient(t.TempDir(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() {
		if err := super.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		super.Close()
	})
	dir := testtask.OpenDir(t)
	t.Run("started", func(t *testing.T) {
		var o recorder
		ts, cfg := shell(t, super, &o, "/bin/sh", "-c", "exit 3"), testtask.Config(t, dir, 1)
		handle, err := ts.StartTask(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := ts.WaitTask(t.Context(), cfg.ID); err != nil || exit.ExitCode != 3 {
			t.Errorf("WaitTask() = %+v, %v, want exit 3", exit, err)
		}
		if err := shell(t, super, &o).RecoverTask(t.Context(), handle); err != nil {
			t.Errorf("RecoverTask() = %v", err)
		}
		if err := ts.DestroyTask(cfg.ID, false); err != nil {
			t.Errorf("DestroyTask() = %v", err)
		}
		want := []string{"starting", "running, with a PID: true", "exited", "running, with a PID: true", "removed"}
		if !slices.Equal(o.calls, want) {
			t.Errorf("calls = %q, want %q", o.calls, want)
		}
	})
	t.Run("refused", func(t *testing.T) {
		var o recorder
		ts, cfg := shell(t, super, &o, "/nonexistent"), testtask.Config(t, dir, 2)
		if _, err := ts.StartTask(t.Context(), cfg); err == nil {
			t.Error("StartTask() of a missing program = nil, want an error")
		}
		if want := []string{"starting", "removed"}; !slices.Equal(o.calls, want) {
			t.Errorf("calls = %q, want %q", o.calls, want)
		}
		if _, err := ts.InspectTask(cfg.ID); err != drivers.ErrTaskNotFound {
			t.Errorf("InspectTask() = %v, want %v", err, drivers.ErrTaskNotFound)
		}
	})
}
