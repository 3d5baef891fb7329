package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// ApplyPlanResults commits the part of a plan that the plan applier accepted.
func (s *Store) ApplyPlanResults(index uint64, req *message.ApplyPlanResultsRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		t.at = req.UpdatedAt
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

// applyAllocs stores the stopped, preempted and placed allocations of a plan.
func (t *txn) applyAllocs(req *message.ApplyPlanResultsRequest, c counts, touched map[nomad.NamespacedID]bool) error {
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
		old := allocs.Get(t, nil, table.KeyOf(a.ID))
		if err := t.stampAlloc(&a, old); err != nil {
			return err
		}
		t.storeAlloc(&a, old, c)
		t.linkPrevious(&a)
		t.claimVolumes(&a)
		touched[a.JobNamespacedID()] = true
	}
	return nil
}

// shareJob returns the stored job if it is the same revision as j, and otherwise a copy of j.
// Allocations of the same job thus share one value in memory.
func (t *txn) shareJob(j *nomad.Job) *nomad.Job {
	if j == nil {
		return nil
	}
	row := jobs.Get(t, nil, table.KeyOf(j.Namespace, j.ID))
	if row != nil && row.ModifyIndex == j.ModifyIndex && row.Version == j.Version && row.CreateIndex == j.CreateIndex {
		return row
	}
	own := *j
	canonicalJob(&own)
	return &own
}

// stampAlloc sets the fields that the servers own and keeps the fields that the client owns.
func (t *txn) stampAlloc(a, old *nomad.Allocation) error {
	a.ModifyIndex, a.AllocModifyIndex = t.Index, t.Index
	if old == nil {
		a.CreateIndex = t.Index
		if a.Job == nil {
			a.Job = jobs.Get(t, nil, table.KeyOf(a.Namespace, a.JobID))
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
	keepClientStatus(a, old)
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

// keepClientStatus keeps the client status of an allocation, unless the scheduler sets lost or unknown for a client that
// misses heartbeats. A transition to unknown counts once. One of a plan that did not see the latest states is ignored: the
// allocation is unknown already, or has ended or returned meanwhile.
func keepClientStatus(a, old *nomad.Allocation) {
	switch a.ClientStatus {
	case nomad.AllocClientStatusLost:
		return
	case nomad.AllocClientStatusUnknown:
		known := len(old.AllocStates)
		stale := old.ClientTerminalStatus() || old.ClientStatus == nomad.AllocClientStatusUnknown || known > 0 && len(a.AllocStates) <= known
		if !stale {
			return
		}
		a.AllocStates = old.AllocStates
	}
	a.ClientStatus, a.ClientDescription = old.ClientStatus, old.ClientDescription
}

// linkPrevious sets the NextAllocation of the allocation that a replaces.
func (t *txn) linkPrevious(a *nomad.Allocation) {
	if a.PreviousAllocation == "" {
		return
	}
	old := allocs.Get(t, nil, table.KeyOf(a.PreviousAllocation))
	if old == nil || old.NextAllocation == a.ID {
		return
	}
	prev := *old
	prev.NextAllocation, prev.ModifyIndex = a.ID, t.Index
	allocs.Put(t.Txn, &prev)
}

// applyDiff applies a diff of a plan to an allocation. Allocations that were garbage collected in
// the meantime are skipped.
func (t *txn) applyDiff(diff *nomad.AllocationDiff, c counts, touched map[nomad.NamespacedID]bool,
	edit func(a *nomad.Allocation, diff *nomad.AllocationDiff)) error {
	old := allocs.Get(t, nil, table.KeyOf(diff.ID))
	if old == nil {
		return nil
	}
	a := *old
	edit(&a, diff)
	a.ModifyIndex, a.AllocModifyIndex = t.Index, t.Index
	if diff.ModifyTime != 0 {
		a.ModifyTime = diff.ModifyTime
	}
	t.storeAlloc(&a, old, c)
	touched[a.JobNamespacedID()] = true
	return nil
}

// stopAlloc sets the desired status of an allocation to stop.
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

// evictAlloc sets the desired status of a preempted allocation to evict.
func evictAlloc(a *nomad.Allocation, diff *nomad.AllocationDiff) {
	a.DesiredStatus = nomad.AllocDesiredStatusEvict
	a.PreemptedByAllocation = diff.PreemptedByAllocation
	a.DesiredDescription = "Preempted by alloc ID " + diff.PreemptedByAllocation
}

// planCommitted updates the ModifyIndex of the evaluation, so that a worker that retries it reads
// a state with the plan. The evaluation is otherwise unchanged and not part of the changes.
func (t *txn) planCommitted(id string, at int64) {
	old := evals.Get(t, nil, table.KeyOf(id))
	if old == nil {
		return
	}
	e := *old
	e.ModifyIndex = t.Index
	if at != 0 {
		e.ModifyTime = at
	}
	t.storeEval(&e)
}

// rejectionsPage is the page of the documentation about plan rejections.
const rejectionsPage = "https://github.com/open-nomad/open-nomad/blob/main/website/content/docs/evaluations.md"

// rejectNodes marks nodes as ineligible after repeated plan rejections.
func (t *txn) rejectNodes(req *message.ApplyPlanResultsRequest) error {
	at := time.Unix(0, req.UpdatedAt).UTC()
	for _, id := range req.IneligibleNodes {
		if nodes.Get(t, nil, table.KeyOf(id)) == nil {
			continue
		}
		err := t.editNode(id, func(n *nomad.Node) {
			n.SchedulingEligibility = nomad.NodeSchedulingIneligible
			n.StatusUpdatedAt = at.Unix()
			appendEvent(n, t.Index, &nomad.NodeEvent{Subsystem: nomad.NodeEventSubsystemScheduler, Timestamp: at,
				Message: "Node marked as ineligible for scheduling due to multiple plan rejections, refer to " + rejectionsPage})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
