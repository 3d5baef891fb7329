package state

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// reconnected is the description of a follow-up evaluation whose allocations returned.
const reconnected = "allocs reconnected"

// cancelFollowups cancels the evaluations that wait for allocations which are not unknown any more: the follow-up
// evaluation of each, unless another allocation needs it, and the ends of the time as unknown, if no allocation of the
// job is unknown.
func (t *txn) cancelFollowups(back []*nomad.Allocation, at int64) {
	byJob := map[nomad.NamespacedID][]*nomad.Allocation{}
	var order []nomad.NamespacedID
	for _, a := range back {
		id := a.JobNamespacedID()
		if byJob[id] == nil {
			order = append(order, id)
		}
		byJob[id] = append(byJob[id], a)
	}
	for _, id := range order {
		t.cancelOfJob(id, byJob[id], at)
	}
}

// cancelOfJob cancels the follow-up evaluations of allocations of one job.
func (t *txn) cancelOfJob(job nomad.NamespacedID, back []*nomad.Allocation, at int64) {
	needed, disconnected := map[string]bool{}, false
	for a := range allocs.By(t, nil, "job", table.KeyOf(job.Namespace, job.ID)) {
		if waitsForFollowup(a) {
			needed[a.FollowupEvalID] = true
		}
		disconnected = disconnected || a.ClientStatus == nomad.AllocClientStatusUnknown && !a.ServerTerminalStatus()
	}
	var canceled []*nomad.Evaluation
	for e := range evals.By(t, nil, "job", table.KeyOf(job.Namespace, job.ID)) {
		if e.Status != nomad.EvalStatusPending || needed[e.ID] {
			continue
		}
		ofOne := slices.ContainsFunc(back, func(a *nomad.Allocation) bool { return a.FollowupEvalID == e.ID })
		if ofOne || !disconnected && e.TriggeredBy == nomad.EvalTriggerMaxDisconnectTimeout {
			canceled = append(canceled, e)
		}
	}
	for _, e := range canceled {
		out := *e
		out.Status, out.StatusDescription = nomad.EvalStatusCancelled, reconnected
		out.ModifyIndex, out.ModifyTime = t.Index, at
		t.putEval(&out)
	}
}

// waitsForFollowup reports whether the follow-up evaluation of the allocation has work to do: it is unknown, or failed
// and not replaced.
func waitsForFollowup(a *nomad.Allocation) bool {
	if a.FollowupEvalID == "" || a.ServerTerminalStatus() {
		return false
	}
	return a.ClientStatus == nomad.AllocClientStatusUnknown ||
		a.ClientStatus == nomad.AllocClientStatusFailed && a.NextAllocation == "" && !a.WasUnknown()
}
