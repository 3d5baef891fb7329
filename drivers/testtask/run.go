package testtask

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// patience bounds the run of a task.
const patience = 2 * time.Minute

// Supervisor returns a client of a supervisor below dir, which ends with the test.
func Supervisor(t testing.TB, dir string) *supervise.Client {
	t.Helper()
	super := supervise.NewClient(SupervisorDir(dir), slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		super.Close()
	})
	return super
}

// SecondClient returns another client of a supervisor, as of the next agent.
func SecondClient(t testing.TB, first *supervise.Client) *supervise.Client {
	t.Helper()
	super := supervise.NewClient(first.Dir(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() { super.Close() })
	return super
}

// SupervisorDir returns the directory of the supervisor of Supervisor.
func SupervisorDir(dir string) string { return filepath.Join(dir, "supervise") }

// Outcome is the exit of a task, and its output.
type Outcome struct {
	*drivers.ExitResult
	Stdout, Stderr string
}

// Want checks the exit code and a part of the standard output.
func (o Outcome) Want(t testing.TB, code int, stdout string) {
	t.Helper()
	if o.ExitCode != code || o.Err != nil {
		t.Errorf("exit = %+v, want code %d; stderr: %s", *o.ExitResult, code, o.Stderr)
	}
	if !strings.Contains(o.Stdout, stdout) {
		t.Errorf("stdout = %q, want it to contain %q; stderr: %s", o.Stdout, stdout, o.Stderr)
	}
}

// Run starts a task, waits for its end and destroys it.
func Run(t testing.TB, d drivers.Driver, cfg *drivers.TaskConfig) Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := d.StartTask(ctx, cfg); err != nil {
		t.Fatalf("StartTask() = %v", err)
	}
	return Wait(t, d, cfg)
}

// Wait waits for the end of a task and destroys it.
func Wait(t testing.TB, d drivers.Driver, cfg *drivers.TaskConfig) Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := d.WaitTask(ctx, cfg.ID)
	if err != nil {
		t.Fatalf("WaitTask() = %v", err)
	}
	if err := d.DestroyTask(cfg.ID, false); err != nil {
		t.Errorf("DestroyTask() = %v", err)
	}
	return Outcome{exit, Output(t, cfg, "stdout"), Output(t, cfg, "stderr")}
}

// Start starts a task and waits for a text in its output.
func Start(t testing.TB, d drivers.Driver, cfg *drivers.TaskConfig, text string) *drivers.TaskHandle {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h, err := d.StartTask(ctx, cfg)
	if err != nil {
		t.Fatalf("StartTask() = %v", err)
	}
	Await(t, cfg, text)
	return h
}

// Await waits until the standard output of a task contains a text.
func Await(t testing.TB, cfg *drivers.TaskConfig, text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("stdout: %s\nstderr: %s", Output(t, cfg, "stdout"), Output(t, cfg, "stderr"))
		}
	}()
	testpace.Until(t, "the task writes "+text, func() bool { return strings.Contains(Output(t, cfg, "stdout"), text) })
}
