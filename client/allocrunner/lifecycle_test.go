package allocrunner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	pre  = nomad.TaskLifecycleHookPrestart
	post = nomad.TaskLifecycleHookPoststart
	stop = nomad.TaskLifecycleHookPoststop
)

func lasts(d string) map[string]any { return map[string]any{"run_for": d} }

func fails(after string) map[string]any { return map[string]any{"run_for": after, "exit_code": 1} }

// span is when a task started and ended, in seconds after the allocation's start.
type span struct{ from, to float64 }

func spans(start time.Time, states map[string]*nomad.TaskState) map[string]span {
	out := map[string]span{}
	for name, s := range states {
		one := span{-1, s.FinishedAt.Sub(start).Seconds()}
		if !s.StartedAt.IsZero() {
			one.from = s.StartedAt.Sub(start).Seconds()
		}
		out[name] = one
	}
	return out
}

func TestLifecycleOrder(t *testing.T) {
	leader := func(task *nomad.Task) *nomad.Task { task.Leader = true; return task }
	for _, tc := range []struct {
		name   string
		tasks  []*nomad.Task
		status string
		want   map[string]span
	}{
		{
			name: "prestart, main, poststart, poststop",
			tasks: []*nomad.Task{
				during(mockTask("pre", lasts("2s")), pre, false),
				during(mockTask("side", lasts("100s")), pre, true),
				mockTask("main", lasts("3s")),
				during(mockTask("up", lasts("1s")), post, false),
				during(mockTask("last", lasts("2s")), stop, false),
			},
			status: nomad.AllocClientStatusComplete,
			want: map[string]span{
				"pre": {0, 2}, "side": {0, 5}, "main": {2, 5}, "up": {2, 3}, "last": {5, 7},
			},
		},
		{
			name: "a failed prestart keeps the rest from running",
			tasks: []*nomad.Task{
				during(mockTask("pre", fails("1s")), pre, false),
				mockTask("main", lasts("3s")),
				during(mockTask("last", lasts("2s")), stop, false),
			},
			status: nomad.AllocClientStatusFailed,
			want:   map[string]span{"pre": {0, 1}, "main": {-1, 1}, "last": {-1, 1}},
		},
		{
			name: "a failed main task ends its siblings, poststop runs",
			tasks: []*nomad.Task{
				mockTask("a", fails("2s")), mockTask("b", lasts("100s")),
				during(mockTask("last", lasts("1s")), stop, false),
			},
			status: nomad.AllocClientStatusFailed,
			want:   map[string]span{"a": {0, 2}, "b": {0, 2}, "last": {2, 3}},
		},
		{
			name: "the leader takes the others with it",
			tasks: []*nomad.Task{
				leader(mockTask("lead", lasts("4s"))), mockTask("b", lasts("100s")),
			},
			status: nomad.AllocClientStatusComplete,
			want:   map[string]span{"lead": {0, 4}, "b": {0, 4}},
		},
		{
			name: "a poststart sidecar ends with the main tasks",
			tasks: []*nomad.Task{
				mockTask("main", lasts("3s")), during(mockTask("side", lasts("100s")), post, true),
			},
			status: nomad.AllocClientStatusComplete,
			want:   map[string]span{"main": {0, 3}, "side": {0, 3}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				start := time.Now()
				got := w.run(allocation(nomad.JobTypeBatch, tc.tasks...))
				if got.ClientStatus != tc.status {
					t.Errorf("status = %q, want %q", got.ClientStatus, tc.status)
				}
				for name, have := range spans(start, got.TaskStates) {
					if have != tc.want[name] {
						t.Errorf("task %s ran %v, want %v", name, have, tc.want[name])
					}
				}
			})
		})
	}
}

// started runs an allocation in the background.
func (w *world) started(alloc *nomad.Allocation) (*allocrunner.Runner, context.CancelFunc, <-chan error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	r, ended := w.runner(alloc), make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	return r, cancel, ended
}

func TestStopByServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lead := mockTask("lead", map[string]any{"run_for": "100s", "kill_after": "2s"})
		lead.Leader = true
		alloc := allocation(nomad.JobTypeService, lead, mockTask("b", lasts("100s")),
			during(mockTask("last", lasts("1s")), stop, false))
		delay := 3 * time.Second
		alloc.Job.TaskGroups[0].ShutdownDelay = &delay
		lead.KillTimeout = 5 * time.Second
		start := time.Now()
		r, _, ended := w.started(alloc)
		if got := r.State().ClientStatus; got != nomad.AllocClientStatusRunning {
			t.Fatalf("status = %q, want running", got)
		}
		stopped := codec.Copy(alloc)
		stopped.DesiredStatus = nomad.AllocDesiredStatusStop
		r.Update(stopped)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		want := map[string]span{"lead": {0, 5}, "b": {0, 5}, "last": {5, 6}}
		for name, have := range spans(start, r.States()) {
			if have != want[name] {
				t.Errorf("task %s ran %v, want %v: delay, leader, others, poststop", name, have, want[name])
			}
		}
		if got := r.State().ClientStatus; got != nomad.AllocClientStatusComplete {
			t.Errorf("status = %q, want completeafter a requested stop", got)
		}
	})
}

func TestAgentRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeBatch, mockTask("main", map[string]any{"run_for": "10s", "exit_code": 3}))
		start := time.Now()
		r, shutdown, ended := w.started(alloc)
		time.Sleep(4 * time.Second)
		shutdown()
		if err := <-ended; err == nil {
			t.Fatal("Run() = nil at shutdown, want the context's error")
		}
		if got := r.State().ClientStatus; got != nomad.AllocClientStatusRunning {
			t.Errorf("status after shutdown = %q, want running: tasks keep running", got)
		}
		time.Sleep(time.Second)

		next := w.agent()
		r = next.runner(alloc)
		if err := r.Restore(); err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := r.States()["main"]
		if got := (spans(start, r.States())["main"]); got != (span{0, 10}) {
			t.Errorf("task ran %v, want 0 to 10without a restart", got)
		}
		if s.Restarts != 0 || exitCode(s) != 3 || !s.Failed {
			t.Errorf("restarts %d, exit code %d, failed %t; want 0, 3, true", s.Restarts, exitCode(s), s.Failed)
		}

		third := w.agent().runner(alloc)
		if err := third.Restore(); err != nil {
			t.Fatal(err)
		}
		if err := third.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := third.State().ClientStatus; got != nomad.AllocClientStatusFailed {
			t.Errorf("status of a finished allocation after another restart = %q, want failed", got)
		}
		if err := third.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The stored allocation is enough to stop it.
func TestRestore_StoppedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := allocation(nomad.JobTypeBatch, mockTask("main", lasts("60s")))
		_, shutdown, ended := w.started(alloc)
		shutdown()
		<-ended
		start := time.Now()
		stopped := codec.Copy(alloc)
		stopped.DesiredStatus = nomad.AllocDesiredStatusStop
		r := w.agent().runner(stopped)
		if err := r.Restore(); err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := r.States()["main"]; time.Since(start) != 0 || !hasEvent(s, nomad.TaskKilled) {
			t.Errorf("over after %v with %v, want it killed at once", time.Since(start), types(s))
		}
		if err := r.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // the first agent's task ends
	})
}

func TestLostProcessRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		task := mockTask("main", map[string]any{"run_for": "10s", "recover_error": drivers.ErrTaskNotFound.Error()})
		task.RestartPolicy.Attempts = 1
		alloc := allocation(nomad.JobTypeBatch, task)
		_, shutdown, ended := w.started(alloc)
		shutdown()
		<-ended

		r := w.agent().runner(alloc)
		if err := r.Restore(); err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := r.States()["main"]
		if s.Failed || s.Restarts != 1 || !hasEvent(s, nomad.TaskRestoreFailed) {
			t.Errorf("failed %t, restarts %d, events %v; want one restart with an event of a failed restore",
				s.Failed, s.Restarts, types(s))
		}
	})
}

func hasEvent(s *nomad.TaskState, kind string) bool {
	for _, e := range s.Events {
		if e.Type == kind {
			return true
		}
	}
	return false
}

func types(s *nomad.TaskState) []string {
	var out []string
	for _, e := range s.Events {
		out = append(out, e.Type)
	}
	return out
}
