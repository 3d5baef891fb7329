package exec2

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func quietWatch() *watch {
	log := slog.New(slog.DiscardHandler)
	return newWatch(Name, log, NewDenials(log), func() string { return string(denials.Off) })
}

func starts(w *watch, id string) {
	w.Starting(&drivers.TaskConfig{ID: id}, &process.Program{Policy: &sandbox.Policy{}})
	w.Running(&proc.Task{ID: id})
}

// TestRounds checks the times of comparisons: some seconds after the start, then every minute until
// the task ends. A task that ends before the first is never compared.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := quietWatch()
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var got []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.rounds(ctx, func(id string) { got = append(got, id+time.Since(start).String()) })
		}()
		starts(w, "a")
		starts(w, "short")
		starts(w, "c")
		time.Sleep(compareAfter / 2)
		w.Removed("short")
		time.Sleep(compareAfter)
		w.Removed("c")
		time.Sleep(time.Until(start.Add(90 * time.Second)))
		starts(w, "b")
		time.Sleep(time.Minute)
		w.Removed("a")
		time.Sleep(time.Minute)
		cancel()
		<-ended
		want := []string{"a3s", "c3.01s", "a1m0s", "b1m33s", "a2m0s", "b2m0s", "b3m0s"}
		if !slices.Equal(got, want) {
			t.Errorf("compared %q, want %q", got, want)
		}
	})
}

// TestWatch_MismatchOnce checks that a mismatch is reported once, and again after it changed or was
// resolved.
func TestWatch_MismatchOnce(t *testing.T) {
	w := quietWatch()
	starts(w, "a")
	event := func(names ...string) *drivers.TaskEvent {
		r := &drivers.SandboxReport{}
		for _, n := range names {
			r.Layers = append(r.Layers, drivers.SandboxLayer{Name: n, Declared: "x", Live: "y"})
		}
		return mismatch("a", r, true)
	}
	for i, step := range []struct {
		event   *drivers.TaskEvent
		changed bool
	}{{event(), false}, {event("uid"), true}, {event("uid"), false}, {event("uid", "gid"), true}, {event(), true}, {event("uid"), true}} {
		if got := w.changed("a", step.event); got != step.changed {
			t.Errorf("step %d: changed = %t, want %t", i, got, step.changed)
		}
	}
	if w.changed("gone", event("uid")) {
		t.Error("a mismatch of a task that has ended is reported")
	}
}
