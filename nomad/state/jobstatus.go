package state

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// setJobStatus computes the status of a job anew and stores it when it differs.
func (t *txn) setJobStatus(ns, id string) {
	j := jobs.get(t, nil, keyOf(ns, id))
	if j == nil {
		return
	}
	status := t.jobStatus(j)
	if status == j.Status {
		return
	}
	updated := *j
	updated.Status, updated.ModifyIndex = status, t.index
	jobs.put(t, &updated)
	t.countChild(&updated, j)
}

// setJobStatuses is setJobStatus for several jobs, in a fixed order.
func (t *txn) setJobStatuses(ids map[nomad.NamespacedID]bool) {
	for _, id := range slices.SortedFunc(maps.Keys(ids), compareNamespaced) {
		t.setJobStatus(id.Namespace, id.ID)
	}
}

// jobStatus says what the status of j is, judged by its allocations and
// evaluations.
func (t *txn) jobStatus(j *nomad.Job) string {
	if j.IsPeriodic() || j.IsParameterized() {
		// Templates have no allocations of their own: they run until told to stop.
		if j.Stop {
			return nomad.JobStatusDead
		}
		return nomad.JobStatusRunning
	}
	k := keyOf(j.Namespace, j.ID)
	for a := range allocs.by(t, nil, "job", k) {
		if !a.TerminalStatus() {
			return nomad.JobStatusRunning
		}
	}
	if j.JobModifyIndex == t.index && !j.Stop && j.Type != nomad.JobTypeSystem {
		return nomad.JobStatusPending // registered by this very entry, whatever its evaluations are
	}
	for _, e := range evalsOf(t, nil, j.Namespace, j.ID) {
		if !e.TerminalStatus() {
			return nomad.JobStatusPending
		}
	}
	switch {
	case j.Stop:
		return nomad.JobStatusDead
	case j.Type == nomad.JobTypeSystem:
		return nomad.JobStatusRunning // it waits for nodes that are still to come
	case j.Type == nomad.JobTypeService && t.lacks(j, k):
		return nomad.JobStatusPending // it waits for a place, or for another try
	}
	return nomad.JobStatusDead
}

// lacks says whether a service has fewer allocations than it asks for, those that
// failed for good counted in: a service without a place is not over.
func (t *txn) lacks(j *nomad.Job, k key) bool {
	missing := 0
	for _, tg := range j.TaskGroups {
		missing += tg.Count
	}
	for a := range allocs.by(t, nil, "job", k) {
		if a.ClientStatus == nomad.AllocClientStatusFailed && !a.ServerTerminalStatus() && a.NextAllocation == "" {
			missing--
		}
	}
	return missing > 0
}

// compareNamespaced orders by namespace, then ID.
func compareNamespaced(a, b nomad.NamespacedID) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
}

// sortedKeys returns the keys of m in order: maps are never walked as they lie.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
