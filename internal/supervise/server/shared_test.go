package server_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestShared_End has two agents share a supervisor, which ends with the first agent while the second one starts a task. The
// start succeeds with the next supervisor.
func TestShared_End(t *testing.T) {
	r := newRig(t)
	for range 40 {
		first, second := r.client(), r.client()
		if _, err := first.Tasks(t.Context()); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if err := first.CloseAndStopIdle(t.Context()); err != nil {
				t.Errorf("CloseAndStopIdle() = %v", err)
			}
		})
		s := r.spec("exec true")
		r.start(second, s)
		both.Wait()
		r.wait(second, s.ID)
		if err := second.Forget(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShared_Copied copies the directory of a supervisor, as with a data_dir that is copied to another disk. Both link to one
// directory of records. Only one supervisor may use it, and its end must not remove it from below the other.
func TestShared_Copied(t *testing.T) {
	r := newRig(t)
	first := r.client()
	s := r.spec("exec sleep 1000")
	task := r.start(first, s)
	link, err := os.Readlink(filepath.Join(r.dir, "tasks"))
	if err != nil {
		t.Skip("records are not on a tmpfs:", err)
	}
	c := newRig(t)
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(link, filepath.Join(c.dir, "tasks")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := c.client().Start(ctx, c.spec("exec sleep 1000")); err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("Start() with a copied directory = %v, want an error", err)
	}
	if raw, err := os.ReadFile(filepath.Join(c.dir, "log")); err != nil || !strings.Contains(string(raw), "another supervisor uses "+link) {
		t.Errorf("log of the supervisor = %q, %v, want the cause", raw, err)
	}
	if err := unix.Kill(task.PID, 0); err != nil {
		t.Errorf("the task: %v, want that it runs", err)
	}

	// The first supervisor ends: now the records belong to the copy.
	r.crash()
	second := c.client()
	if got, err := second.Brief(t.Context(), s.ID); err != nil || got.PID != task.PID {
		t.Errorf("Brief() = %+v, %v, want the task", got, err)
	}
	if _, err := second.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := second.Forget(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	r.start(second, c.spec("exec sleep 1000"))
}
