package logfaults_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/logfaults"
)

// TestWatcher checks that each change is reported once, for tasks of the driver that run.
func TestWatcher(t *testing.T) {
	faulty := func(id string, exit *proc.Exit) proc.Task {
		return proc.Task{ID: id, Exit: exit, LogFaults: map[string]string{"stdout": "full"}}
	}
	rounds := []struct {
		tasks []proc.Task
		err   error
		idle  bool
		want  []string
	}{
		{tasks: []proc.Task{faulty("a", nil), faulty("foreign", nil), faulty("ended", &proc.Exit{})},
			want: []string{"a the log of stdout cannot be written: full: it waits"}},
		{tasks: []proc.Task{faulty("a", nil)}},
		{err: errors.New("no supervisor")},
		{want: []string{"a the log of stdout is writable again"}},
		{tasks: []proc.Task{faulty("a", nil)}, want: []string{"a the log of stdout cannot be written: full: it waits"}},
		{tasks: []proc.Task{faulty("a", &proc.Exit{})}},
		{idle: true},
		{},
	}
	synctest.Test(t, func(t *testing.T) {
		var round atomic.Int32
		var got []string // read after synctest.Wait
		w := &logfaults.Watcher{
			Faulty: func(context.Context) ([]proc.Task, error) { r := rounds[round.Load()]; return r.tasks, r.err },
			Idle:   func() bool { return rounds[round.Load()].idle },
			Has:    func(id string) bool { return id == "a" || id == "ended" },
			Effect: "it waits",
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx, func(e *drivers.TaskEvent) {
				if e.Type != logfaults.Event || e.Details["stream"] != "stdout" || e.At.IsZero() {
					t.Errorf("event %+v", e)
				}
				got = append(got, e.TaskID+" "+e.Message)
			})
		}()
		for i, r := range rounds {
			got = nil
			round.Store(int32(i))
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if !slices.Equal(got, r.want) {
				t.Errorf("round %d: %q, want %q", i, got, r.want)
			}
		}
		cancel()
		<-ended
	})
}
