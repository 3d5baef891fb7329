package state_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// A lost allocation frees no capacity, and a completed one does.
func TestLostAllocationsFreeNothing(t *testing.T) {
	for status, want := range map[string]int{"complete": 1, "failed": 1, "lost": 0, "unknown": 0} {
		w := newWorld(t)
		w.place(w.job("j"), nil, "a1")
		c := w.ok(w.ApplyPlanResults(w.next(),
			&message.ApplyPlanResultsRequest{AllocsStopped: []*nomad.AllocationDiff{{ID: "a1", ClientStatus: status}}}))
		if len(c.Stopped) != want {
			t.Errorf("%s: %d allocations free capacity, want %d", status, len(c.Stopped), want)
		}
	}
}

func (w *world) pause(paused bool) {
	w.t.Helper()
	_, _, err := w.SetSchedulerConfig(w.next(),
		&message.SchedulerSetConfigRequest{Config: nomad.SchedulerConfiguration{PauseEvalBroker: paused}})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestEvalRemovable(t *testing.T) {
	policy := func(p nomad.ReschedulePolicy) func(*nomad.Job) {
		return func(j *nomad.Job) { j.TaskGroups[0].ReschedulePolicy = &p }
	}
	unlimited, never := policy(nomad.ReschedulePolicy{Unlimited: true}), policy(nomad.ReschedulePolicy{})
	for _, tt := range []struct {
		name   string
		edit   func(*nomad.Job)
		status string // of the allocation; "" for none
		after  func(w *world)
		want   bool
	}{
		{"no allocation", nil, "", nil, true},
		{"pending", nil, "pending", nil, false},
		{"running", nil, "running", nil, false},
		{"unknown", nil, "unknown", nil, false},
		{"complete", nil, "complete", nil, true},
		{"lost", nil, "lost", nil, true},
		{"failed without a policy", never, "failed", nil, true},
		{"failed, limited", policy(nomad.ReschedulePolicy{Attempts: 1, Interval: time.Hour}), "failed", nil, false},
		{"failed, unlimited", unlimited, "failed", nil, false},
		{"failed and replaced", unlimited, "failed", func(w *world) {
			w.place(w.snap().Job(nil, "default", "j"), func(a *nomad.Allocation) { a.PreviousAllocation, a.EvalID = "a1", "other" }, "a2")
		}, true},
		{"running, job stopped", nil, "running", func(w *world) {
			w.ok(w.DeregisterJob(w.next(), &message.JobDeregisterRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "default"}}))
		}, true},
		{"running, job purged", nil, "running", func(w *world) {
			w.ok(w.DeregisterJob(w.next(),
				&message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			j := w.job("j", func(j *nomad.Job) {
				if tt.edit != nil {
					tt.edit(j)
				}
			})
			e := w.snap().Eval(nil, w.oneEval("j"))
			if tt.status != "" {
				w.place(j, func(a *nomad.Allocation) { a.EvalID = e.ID }, "a1")
				w.report("a1", tt.status)
			}
			if tt.after != nil {
				tt.after(w)
			}
			if got := w.snap().EvalRemovable(e); got != tt.want {
				t.Errorf("EvalRemovable() = %t, want %t", got, tt.want)
			}
		})
	}
}

// A user's deletion is applied only while the broker is paused, whatever the leader saw before.
func TestDeletionNeedsAPause(t *testing.T) {
	w := newWorld(t)
	w.job("j")
	req := &message.EvalReapRequest{Evals: []string{w.oneEval("j")}, UserInitiated: true}
	for _, configured := range []bool{false, true} {
		if configured {
			w.pause(false)
		}
		if _, err := w.Reap(w.next(), req); err == nil || !strings.Contains(err.Error(), "paused") || w.snap().Eval(nil, req.Evals[0]) == nil {
			t.Errorf("Reap() = %v while the broker is not paused (configured: %t)", err, configured)
		}
	}
	w.pause(true)
	w.ok(w.Reap(w.next(), req))
	if w.snap().Eval(nil, req.Evals[0]) != nil {
		t.Error("the evaluation was not deleted")
	}
}

// A deletion by filter in the log, as leaders of Nomad 2.0 write it: pages by ID of removable evaluations.
func TestReapByFilter(t *testing.T) {
	w := newWorld(t)
	running := w.job("c")
	w.place(running, func(a *nomad.Allocation) { a.EvalID = w.oneEval("c") }, "a1")
	w.report("a1", "running")
	for _, job := range []string{"a", "b", "d", "e", "other"} {
		w.job(job)
	}
	remaining := func() (jobs []string) {
		for e := range w.snap().Evals(nil) {
			jobs = append(jobs, e.JobID)
		}
		slices.Sort(jobs)
		return jobs
	}
	const filter = `JobID != "other"`
	for _, tt := range []struct {
		req  message.EvalReapRequest
		want []string
	}{
		{message.EvalReapRequest{Filter: filter, PerPage: 1}, []string{"b", "c", "d", "e", "other"}},
		{message.EvalReapRequest{Filter: filter, PerPage: 1, NextToken: w.oneEval("d")}, []string{"b", "c", "e", "other"}},
		{message.EvalReapRequest{Filter: `JobID == "none"`}, []string{"b", "c", "e", "other"}},
		{message.EvalReapRequest{Filter: filter}, []string{"c", "other"}},
	} {
		w.ok(w.Reap(w.next(), &tt.req))
		if got := remaining(); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: evaluations of %q remain, want %q", tt.req, got, tt.want)
		}
	}
}
