package state

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// setJobStatus computes the status of a job and stores the job if the status has changed.
func (t *txn) setJobStatus(ns, id string) {
	if j := jobs.Get(t, nil, table.KeyOf(ns, id)); j != nil {
		t.putJobStatus(j, t.jobStatus(j))
	}
}

// setJobStatuses is setJobStatus for several jobs, in a fixed order.
func (t *txn) setJobStatuses(ids map[nomad.NamespacedID]bool) {
	for _, id := range slices.SortedFunc(maps.Keys(ids), compareNamespaced) {
		t.setJobStatus(id.Namespace, id.ID)
	}
}

// setCollectedStatuses is setJobStatuses after evaluations of the jobs were deleted. A job
// without remaining evaluations is dead, not pending.
func (t *txn) setCollectedStatuses(ids map[nomad.NamespacedID]bool) {
	for _, id := range slices.SortedFunc(maps.Keys(ids), compareNamespaced) {
		if j := jobs.Get(t, nil, table.KeyOf(id.Namespace, id.ID)); j != nil {
			t.putJobStatus(j, t.statusOf(j, nomad.JobStatusDead))
		}
	}
}

// putJobStatus stores the job with the status if the status has changed.
func (t *txn) putJobStatus(j *nomad.Job, status string) {
	if status == j.Status {
		return
	}
	updated := *j
	updated.Status, updated.ModifyIndex = status, t.Index
	jobs.Put(t.Txn, &updated)
	t.countChild(&updated, j)
}

// jobStatus returns the status of a job as Nomad 2.0 derives it. All servers of a cluster must
// derive the same status, because a change also sets the ModifyIndex of the job.
//
//	system, periodic or parameterized      running until stopped, then dead
//	active deployment                      running
//	allocation that is not terminal        running
//	evaluation that is not terminal        pending
//	stopped, or with terminal evaluations  dead
//	otherwise                              pending
func (t *txn) jobStatus(j *nomad.Job) string { return t.statusOf(j, nomad.JobStatusPending) }

// statusOf is jobStatus, but returns unevaluated for a job without evaluations.
func (t *txn) statusOf(j *nomad.Job, unevaluated string) string {
	if j.Type == nomad.JobTypeSystem || j.IsPeriodic() || j.IsParameterized() {
		if j.Stop {
			return nomad.JobStatusDead
		}
		return nomad.JobStatusRunning
	}
	if t.runs(j) {
		return nomad.JobStatusRunning
	}
	evaluated := false
	for e := range evals.By(t, nil, "job", table.KeyOf(j.Namespace, j.ID)) {
		if !e.TerminalStatus() {
			return nomad.JobStatusPending
		}
		evaluated = true
	}
	if j.Stop || evaluated {
		return nomad.JobStatusDead
	}
	return unevaluated
}

// runs reports whether a job has an active deployment or an allocation that is not terminal.
func (t *txn) runs(j *nomad.Job) bool {
	k := table.KeyOf(j.Namespace, j.ID)
	for d := range deployments.By(t, nil, "job", k) {
		if d.Active() {
			return true
		}
	}
	for a := range allocs.By(t, nil, "job", k) {
		if !a.TerminalStatus() {
			return true
		}
	}
	return false
}

// compareNamespaced orders by namespace, then ID.
func compareNamespaced(a, b nomad.NamespacedID) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
}
