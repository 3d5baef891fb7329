package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// TestUpgradeWaitsForStarts upgrades a supervisor while a start hangs: the upgrade is refused and
// retried until the start is over.
func TestUpgradeWaitsForStarts(t *testing.T) {
	r := newRig(t)
	c := r.client()
	kept := r.spec("sleep 1000")
	task := r.start(c, kept)
	hanging, gate := r.hanging(t)
	started := make(chan error, 1)
	go func() {
		_, err := c.Start(context.Background(), hanging)
		started <- err
	}()
	w := r.wire(t)
	w.ask(`{"Seq":1,"Op":"hello","Secret":"` + r.secret(t) + `"}`)
	testpace.Until(r.t, "a refusal of the upgrade", func() bool { return underWay(t, w) })
	lines, out := io.Pipe()
	second := supervise.NewClient(r.dir, slog.New(slog.NewTextHandler(out, nil)))
	t.Cleanup(func() { second.Close() })
	go func() {
		for in := bufio.NewScanner(lines); in.Scan(); {
			if strings.Contains(in.Text(), "cannot be upgraded yet") {
				release(t, gate)
			}
		}
	}()
	if err := second.Upgrade(t.Context()); err != nil {
		release(t, gate)
		t.Errorf("Upgrade() = %v", err)
	}
	if err := <-started; err == nil {
		t.Error("Start() with a file that is not a control group = nil")
	}
	if got, err := second.Task(t.Context(), kept.ID); err != nil || got.PID != task.PID {
		t.Errorf("Task() = %+v, %v, want pid %d", got, err, task.PID)
	}
}

// TestUpgradeBeforeStart has a client connect to a supervisor of another build whose upgrade a
// start blocks for longer than the client waits. It serves running tasks; the next start upgrades
// it.
func TestUpgradeBeforeStart(t *testing.T) {
	r := newRig(t)
	first := r.client()
	kept := r.spec("sleep 1000")
	task := r.start(first, kept)
	first.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hello := `{"Seq":1,"Op":"hello","Secret":"` + r.secret(t) + `"}`
	w := r.wire(t)
	w.ask(hello)
	if answer, ok := w.ask(`{"Seq":2,"Op":"upgrade","Path":"` + exe + `","Program":"another"}`); ok {
		t.Fatalf("upgrade to another build: %+v", answer)
	}
	hanging, gate := r.hanging(t)
	start, err := json.Marshal(map[string]any{"Seq": 2, "Op": "start", "Spec": hanging})
	if err != nil {
		t.Fatal(err)
	}
	testpace.Until(r.t, "the other build", func() bool {
		if w, err = r.dial(t); err != nil {
			return false
		}
		answer, ok := w.ask(hello)
		return ok && answer.Program == "another"
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.ask(string(start))
	}()
	probe := r.wire(t)
	probe.ask(hello)
	testpace.Until(r.t, "a refusal of the upgrade", func() bool { return underWay(t, probe) })
	c := r.client()
	if got, err := c.Task(t.Context(), kept.ID); err != nil || got.PID != task.PID {
		t.Errorf("Task() of a supervisor that cannot be upgraded = %+v, %v, want pid %d", got, err, task.PID)
	}
	release(t, gate)
	<-ended
	r.start(c, r.spec("true"))
	if answer, ok := r.wire(t).ask(hello); !ok || answer.Program == "another" {
		t.Errorf("hello after a start = %+v, %t, want an upgrade", answer, ok)
	}
	if got, err := c.Task(t.Context(), kept.ID); err != nil || got.PID != task.PID {
		t.Errorf("Task() after the upgrade = %+v, %v, want pid %d", got, err, task.PID)
	}
}

// hanging returns a task whose start blocks until the gate has a reader, and then fails.
func (r *rig) hanging(t *testing.T) (spec *proc.Spec, gate string) {
	t.Helper()
	gate = filepath.Join(r.logs, "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	spec = r.spec("true")
	spec.Join = []string{gate} // not a control group
	return spec, gate
}

// release gives the FIFO a permanent reader, so that no start blocks on it any more.
func release(t *testing.T, fifo string) {
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { f.Close() })
}

// underWay reports whether the supervisor refuses an upgrade because of a start in progress.
func underWay(t *testing.T, w *wire) bool {
	t.Helper()
	answer, ok := w.ask(`{"Seq":3,"Op":"upgrade","Path":"/dev/null","Program":"x"}`)
	return ok && strings.Contains(answer.Err, "a start is under way")
}
