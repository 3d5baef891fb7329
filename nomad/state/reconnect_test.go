package state_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// unknown places allocations that their client runs and that are then unknown, with a follow-up evaluation each.
func (w *world) unknown(j *nomad.Job, followups map[string]string) {
	w.t.Helper()
	for id, eval := range followups {
		w.place(j, func(a *nomad.Allocation) { a.ClientStatus = nomad.AllocClientStatusRunning }, id)
		w.report(id, nomad.AllocClientStatusRunning)
		w.markUnknown(id, eval, 100)
	}
}

// markUnknown commits a plan that makes an allocation unknown.
func (w *world) markUnknown(id, eval string, at int64) {
	w.t.Helper()
	w.commit(w.disconnected(id, eval, at))
}

// disconnected returns an allocation as a scheduler makes it unknown.
func (w *world) disconnected(id, eval string, at int64) *nomad.Allocation {
	a := w.snap().Alloc(nil, id).WithState(nomad.AllocClientStatusUnknown, time.Unix(at, 0))
	a.ClientStatus, a.ClientDescription, a.FollowupEvalID = nomad.AllocClientStatusUnknown, nomad.AllocUnknownDescription, eval
	return a
}

func (w *world) commit(a *nomad.Allocation) {
	w.t.Helper()
	w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{AllocsUpdated: []*nomad.Allocation{a}}))
}

// delayed stores a follow-up evaluation.
func (w *world) delayed(j *nomad.Job, id, trigger string) {
	w.t.Helper()
	w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{{ID: id, Namespace: j.Namespace, JobID: j.ID,
		Type: j.Type, TriggeredBy: trigger, Status: nomad.EvalStatusPending, WaitUntil: time.Unix(9000, 0)}}}))
}

// The follow-up evaluation of an unknown allocation is canceled when its client reports it, unless another allocation
// needs it. The end of the time as unknown is canceled with the last one.
func TestFollowupsAreCanceled(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	j, other := w.job("j"), w.job("other")
	for id, trigger := range map[string]string{"own": nomad.EvalTriggerAllocReschedule, "shared": nomad.EvalTriggerAllocReschedule,
		"failure": nomad.EvalTriggerAllocReschedule, "timeout": nomad.EvalTriggerMaxDisconnectTimeout} {
		w.delayed(j, id, trigger)
	}
	w.delayed(other, "foreign", nomad.EvalTriggerMaxDisconnectTimeout)
	w.unknown(j, map[string]string{"a": "own", "b": "shared", "c": "shared", "d": "failure"})
	w.unknown(other, map[string]string{"x": "foreign"})
	w.place(j, func(a *nomad.Allocation) {
		a.ClientStatus, a.FollowupEvalID = nomad.AllocClientStatusRunning, "failure"
	}, "e")
	w.report("e", nomad.AllocClientStatusFailed) // it waits for its replacement by the evaluation that d shares

	canceled := func(when string, want ...string) {
		t.Helper()
		is := map[string]bool{}
		for _, id := range want {
			is[id] = true
		}
		for _, id := range []string{"own", "shared", "failure", "timeout", "foreign"} {
			e := w.snap().Eval(nil, id)
			if got := e.Status == nomad.EvalStatusCancelled; got != is[id] || got &&
				(e.StatusDescription != "allocs reconnected" || e.ModifyTime != 9) {
				t.Errorf("%s: evaluation %s is %s: %s", when, id, e.Status, e.StatusDescription)
			}
		}
	}
	canceled("unknown")
	w.report("a", nomad.AllocClientStatusUnknown)
	canceled("still unknown")
	changes := w.report("a", nomad.AllocClientStatusRunning)
	canceled("a is back", "own")
	if len(changes.Evals) != 1 || changes.Evals[0].ID != "own" {
		t.Errorf("changed evaluations %v, want the broker to get the canceled one", changes.Evals)
	}
	w.report("b", nomad.AllocClientStatusRunning)
	canceled("b is back", "own")
	w.report("c", nomad.AllocClientStatusFailed)
	canceled("c is back", "own", "shared")
	w.report("d", nomad.AllocClientStatusComplete)
	canceled("all are back", "own", "shared", "timeout")
}

// A second plan that makes an allocation unknown does not record it again, and a late one does not take back the return.
func TestUnknownIsRecordedOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	j := w.job("j")
	w.place(j, nil, "a")
	w.report("a", nomad.AllocClientStatusRunning)
	first, second, third := w.disconnected("a", "e1", 100), w.disconnected("a", "e2", 200), w.disconnected("a", "e3", 300)
	w.commit(first)
	w.commit(second)
	got := w.snap().Alloc(nil, "a")
	if len(got.AllocStates) != 1 || !got.LastUnknown().Equal(time.Unix(100, 0)) || got.FollowupEvalID != "e2" ||
		got.ClientStatus != nomad.AllocClientStatusUnknown {
		t.Errorf("after two plans: %s since %v, %d states, follow-up %s", got.ClientStatus, got.LastUnknown(), len(got.AllocStates),
			got.FollowupEvalID)
	}
	w.report("a", nomad.AllocClientStatusRunning)
	w.commit(third)
	if got := w.snap().Alloc(nil, "a"); got.ClientStatus != nomad.AllocClientStatusRunning || len(got.AllocStates) != 1 {
		t.Errorf("a late plan makes an allocation that returned %s, %d states", got.ClientStatus, len(got.AllocStates))
	}
	back := w.snap().Alloc(nil, "a").WithState(nomad.AllocClientStatusRunning, time.Unix(400, 0))
	w.commit(back)
	w.markUnknown("a", "e4", 500)
	if got := w.snap().Alloc(nil, "a"); got.ClientStatus != nomad.AllocClientStatusUnknown || len(got.AllocStates) != 3 ||
		!got.LastUnknown().Equal(time.Unix(500, 0)) {
		t.Errorf("away again: %s, %d states", got.ClientStatus, len(got.AllocStates))
	}

	w.place(j, nil, "done")
	late := w.disconnected("done", "e5", 600)
	w.report("done", nomad.AllocClientStatusComplete)
	w.commit(late)
	if got := w.snap().Alloc(nil, "done"); got.ClientStatus != nomad.AllocClientStatusComplete || len(got.AllocStates) != 0 {
		t.Errorf("an allocation that ended is %s, %d states", got.ClientStatus, len(got.AllocStates))
	}
}
