package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// ApplyPlanResults commits what the plan applier let through of a plan.
func (s *Store) ApplyPlanResults(index uint64, req *nomad.ApplyPlanResultsRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.Deployment != nil {
			d := *req.Deployment
			t.putDeployment(&d)
		}
		for _, u := range req.DeploymentUpdates {
			if _, err := t.setDeploymentStatus(u); err != nil {
				return err
			}
		}
		touched := map[nomad.NamespacedID]bool{}
		c := counts{}
		if err := t.applyAllocs(req, c, touched); err != nil {
			return err
		}
		t.applyCounts(c)
		for _, e := range slices.Concat(req.PreemptionEvals, req.Evals) {
			stored := *e
			t.upsertEvals(&stored)
			touched[nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}] = true
		}
		t.planCommitted(req.EvalID, req.UpdatedAt)
		t.setJobStatuses(touched)
		return t.rejectNodes(req)
	})
}

// applyAllocs stores the allocations of a plan: stopped, preempted, placed.
func (t *txn) applyAllocs(req *nomad.ApplyPlanResultsRequest, c counts, touched map[nomad.NamespacedID]bool) error {
	for _, diff := range req.AllocsStopped {
		if err := t.applyDiff(diff, c, touched, stopAlloc); err != nil {
			return err
		}
	}
	for _, diff := range req.AllocsPreempted {
		if err := t.applyDiff(diff, c, touched, evictAlloc); err != nil {
			return err
		}
	}
	job := t.shareJob(req.Job)
	for _, placed := range req.AllocsUpdated {
		a := *placed
		if a.Job == nil {
			a.Job = job
		} else {
			a.Job = t.shareJob(a.Job)
		}
		old := allocs.get(t, nil, keyOf(a.ID))
		if err := t.stampAlloc(&a, old); err != nil {
			return err
		}
		t.storeAlloc(&a, old, c)
		t.linkPrevious(&a)
		touched[a.JobNamespacedID()] = true
	}
	return nil
}

// shareJob returns the row of state that equals j, so that thousands of
// allocations hold one job and not one each plan.
func (t *txn) shareJob(j *nomad.Job) *nomad.Job {
	if j == nil {
		return nil
	}
	row := jobs.get(t, nil, keyOf(j.Namespace, j.ID))
	if row != nil && row.ModifyIndex == j.ModifyIndex && row.Version == j.Version && row.CreateIndex == j.CreateIndex {
		return row
	}
	own := *j
	canonicalJob(&own)
	return &own
}

// stampAlloc fills in what belongs to the servers' books and keeps what
// belongs to the client's.
func (t *txn) stampAlloc(a, old *nomad.Allocation) error {
	a.ModifyIndex, a.AllocModifyIndex = t.index, t.index
	if old == nil {
		a.CreateIndex = t.index
		if a.Job == nil {
			a.Job = jobs.get(t, nil, keyOf(a.Namespace, a.JobID))
		}
		if a.Job == nil {
			return fmt.Errorf("allocation %s of job %q has no job", a.ID, a.JobID)
		}
		return nil
	}
	a.CreateIndex, a.CreateTime = old.CreateIndex, old.CreateTime
	if a.Job == nil {
		a.Job = old.Job
	}
	// Lost and unknown are the scheduler's word on a client that is silent.
	if a.ClientStatus != nomad.AllocClientStatusLost && a.ClientStatus != nomad.AllocClientStatusUnknown {
		a.ClientStatus, a.ClientDescription = old.ClientStatus, old.ClientDescription
	}
	if a.DeploymentID == old.DeploymentID {
		a.DeploymentStatus = old.DeploymentStatus
	}
	a.TaskStates = old.TaskStates
	a.NetworkStatus = old.NetworkStatus
	a.NextAllocation = old.NextAllocation
	if len(a.SignedIdentities) == 0 {
		a.SignedIdentities, a.SigningKeyID = old.SignedIdentities, old.SigningKeyID
	}
	return nil
}

// linkPrevious points the allocation that a replaces at it.
func (t *txn) linkPrevious(a *nomad.Allocation) {
	if a.PreviousAllocation == "" {
		return
	}
	old := allocs.get(t, nil, keyOf(a.PreviousAllocation))
	if old == nil || old.NextAllocation == a.ID {
		return
	}
	prev := *old
	prev.NextAllocation, prev.ModifyIndex = a.ID, t.index
	allocs.put(t, &prev)
}

// applyDiff changes an allocation as a plan's diff says. One that was collected
// meanwhile is passed over.
func (t *txn) applyDiff(diff *nomad.AllocationDiff, c counts, touched map[nomad.NamespacedID]bool,
	edit func(a *nomad.Allocation, diff *nomad.AllocationDiff)) error {
	old := allocs.get(t, nil, keyOf(diff.ID))
	if old == nil {
		return nil
	}
	a := *old
	edit(&a, diff)
	a.ModifyIndex, a.AllocModifyIndex = t.index, t.index
	if diff.ModifyTime != 0 {
		a.ModifyTime = diff.ModifyTime
	}
	t.storeAlloc(&a, old, c)
	touched[a.JobNamespacedID()] = true
	return nil
}

// stopAlloc makes an allocation one that the servers want gone.
func stopAlloc(a *nomad.Allocation, diff *nomad.AllocationDiff) {
	a.DesiredStatus = nomad.AllocDesiredStatusStop
	a.DesiredDescription = diff.DesiredDescription
	if diff.ClientStatus != "" {
		a.ClientStatus = diff.ClientStatus
		a.ClientDescription = diff.ClientDescription
	}
	if diff.FollowupEvalID != "" {
		a.FollowupEvalID = diff.FollowupEvalID
	}
	if diff.RescheduleTracker != nil {
		a.RescheduleTracker = diff.RescheduleTracker
	}
	if len(diff.AllocStates) > 0 {
		a.AllocStates = diff.AllocStates
	}
}

// evictAlloc makes an allocation give way to another one.
func evictAlloc(a *nomad.Allocation, diff *nomad.AllocationDiff) {
	a.DesiredStatus = nomad.AllocDesiredStatusEvict
	a.PreemptedByAllocation = diff.PreemptedByAllocation
	a.DesiredDescription = "Preempted by alloc ID " + diff.PreemptedByAllocation
}

// planCommitted moves the evaluation's index: a worker that takes it up again
// must see what its plan did. Nobody is told, the evaluation is the same.
func (t *txn) planCommitted(id string, at int64) {
	old := evals.get(t, nil, keyOf(id))
	if old == nil {
		return
	}
	e := *old
	e.ModifyIndex = t.index
	if at != 0 {
		e.ModifyTime = at
	}
	t.storeEval(&e)
}

// rejectNodes keeps new allocations away from nodes whose plans are refused
// again and again.
func (t *txn) rejectNodes(req *nomad.ApplyPlanResultsRequest) error {
	at := time.Unix(0, req.UpdatedAt).UTC()
	for _, id := range req.IneligibleNodes {
		if nodes.get(t, nil, keyOf(id)) == nil {
			continue
		}
		err := t.editNode(id, func(n *nomad.Node) {
			n.SchedulingEligibility = nomad.NodeSchedulingIneligible
			n.StatusUpdatedAt = at.Unix()
			appendEvent(n, t.index, &nomad.NodeEvent{Subsystem: nomad.NodeEventSubsystemScheduler, Timestamp: at,
				Message: "Node marked as ineligible for scheduling due to multiple plan rejections"})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
