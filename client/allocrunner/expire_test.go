package allocrunner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// limited returns a batch allocation, created now, with a max_run_duration.
func limited(limit time.Duration, tasks ...*nomad.Task) *nomad.Allocation {
	a := allocation(nomad.JobTypeBatch, tasks...)
	a.CreateTime = time.Now().UnixNano()
	a.Job.TaskGroups[0].MaxRunDuration = &limit
	return a
}

func TestMaxRunDuration(t *testing.T) {
	for _, tc := range []struct {
		name        string
		tasks       []*nomad.Task
		status      string
		description string
		want        map[string]span
	}{
		{
			name: "main tasks, sidecars and poststop end at the deadline",
			tasks: []*nomad.Task{mockTask("main", lasts("1h")), during(mockTask("side", lasts("1h")), pre, true),
				during(mockTask("last", lasts("1s")), stop, false)},
			status: nomad.AllocClientStatusComplete, description: nomad.AllocTimeoutReasonMaxRunDuration,
			want: map[string]span{"main": {0, 10}, "side": {0, 10}, "last": {-1, 10}},
		},
		{
			name:   "a running poststop task ends too",
			tasks:  []*nomad.Task{mockTask("main", lasts("5s")), during(mockTask("last", lasts("1h")), stop, false)},
			status: nomad.AllocClientStatusComplete, description: nomad.AllocTimeoutReasonMaxRunDuration,
			want: map[string]span{"main": {0, 5}, "last": {5, 10}},
		},
		{
			name:   "tasks that end in time are not affected",
			tasks:  []*nomad.Task{mockTask("main", lasts("9s"))},
			status: nomad.AllocClientStatusComplete, description: "All tasks have completed",
			want: map[string]span{"main": {0, 9}},
		},
		{
			name:   "a failure stays a failure",
			tasks:  []*nomad.Task{mockTask("main", fails("9s"))},
			status: nomad.AllocClientStatusFailed, description: "Failed tasks",
			want: map[string]span{"main": {0, 9}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newWorld(t), time.Now()
				got := w.run(limited(10*time.Second, tc.tasks...))
				if got.ClientStatus != tc.status || got.ClientDescription != tc.description {
					t.Errorf("status = %q, %q, want %q, %q", got.ClientStatus, got.ClientDescription, tc.status, tc.description)
				}
				for name, s := range spans(start, got.TaskStates) {
					if s != tc.want[name] {
						t.Errorf("task %s ran %v, want %v", name, s, tc.want[name])
					}
				}
			})
		})
	}
}

// An update in place may change the limit in either direction.
func TestMaxRunDurationUpdated(t *testing.T) {
	for name, limit := range map[string]time.Duration{"longer": 20 * time.Second, "shorter": 7 * time.Second, "already over": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newWorld(t), time.Now()
				alloc := limited(10*time.Second, mockTask("main", lasts("1h")))
				r := w.runner(alloc)
				done := make(chan error, 1)
				go func() { done <- r.Run(t.Context()) }()
				time.Sleep(5 * time.Second)
				next := codec.Copy(alloc)
				next.Job.TaskGroups[0].MaxRunDuration = &limit
				r.Update(next)
				if err := <-done; err != nil {
					t.Fatalf("Run() = %v", err)
				}
				if took, want := time.Since(start), max(limit, 5*time.Second); took != want {
					t.Errorf("the allocation ended after %v, want %v", took, want)
				}
			})
		})
	}
}

// A restart of the agent does not move the deadline. One that passes while no agent runs ends the
// allocation when the next agent starts.
func TestMaxRunDurationAcrossAgents(t *testing.T) {
	for name, down := range map[string]time.Duration{"passes later": 2 * time.Second, "passed meanwhile": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newWorld(t), time.Now()
				alloc := limited(10*time.Second, mockTask("main", lasts("1h")))
				ctx, shutdown := context.WithTimeout(t.Context(), 3*time.Second)
				defer shutdown()
				if err := w.runner(alloc).Run(ctx); err == nil {
					t.Fatal("Run() = nil, want the end of its context")
				}
				time.Sleep(down)
				// The same drivers, which keep the task: only the runner is new.
				r := w.runner(alloc)
				if err := r.Restore(); err != nil {
					t.Fatal(err)
				}
				if err := r.Run(t.Context()); err != nil {
					t.Fatalf("Run() of the next agent = %v", err)
				}
				if took, want := time.Since(start), max(10*time.Second, 3*time.Second+down); took != want {
					t.Errorf("the allocation ended after %v, want %v", took, want)
				}
				// A third agent reports the same description from what is stored.
				r = w.runner(alloc)
				if err := r.Restore(); err != nil {
					t.Fatal(err)
				}
				if err := r.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := w.updates.alloc(); got.ClientDescription != nomad.AllocTimeoutReasonMaxRunDuration ||
					got.ClientStatus != nomad.AllocClientStatusComplete {
					t.Errorf("status = %q, %q, want complete because of max_run_duration", got.ClientStatus, got.ClientDescription)
				}
			})
		})
	}
}
