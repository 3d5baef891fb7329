package plan

import (
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// candidate is the part of a plan that is possible.
type candidate struct {
	plan   *nomad.Plan
	job    *nomad.Job
	view   view
	result *nomad.PlanResult
	stale  bool
	// overQuota lists the nodes that are omitted because they exceed the quota of the namespace.
	overQuota []string
	reasons   map[string]refusal           // why parts were rejected, by node
	signed    map[string]*nomad.Allocation // copies with identities, by allocation ID
	now       time.Time
}

// checkJob rejects a plan with a new allocation without a job, or of another job than the plan's.
// It would be stored without identities, or with those of another job, and not counted in the
// quota.
func (c *candidate) checkJob() error {
	for _, allocs := range c.plan.NodeAllocation {
		for _, a := range allocs {
			switch {
			case a.Job != nil || c.view.snap.Alloc(nil, a.ID) != nil:
			case c.job == nil:
				return apierror.Errorf(http.StatusBadRequest, "plan of evaluation %s places allocation %s, but its job does not exist",
					c.plan.EvalID, a.ID)
			case a.JobID != c.job.ID || a.Namespace != c.job.Namespace:
				return apierror.Errorf(http.StatusBadRequest, "plan of evaluation %s is for job %q, but its allocation %s is of job %q", c.plan.EvalID,
					c.job.ID, a.ID, a.JobID)
			}
		}
	}
	return nil
}

// empty reports whether there is nothing to commit.
func (c *candidate) empty() bool {
	r := c.result
	return len(r.NodeUpdate) == 0 && len(r.NodeAllocation) == 0 && len(r.NodePreemptions) == 0 &&
		r.Deployment == nil && len(r.DeploymentUpdates) == 0 && len(r.IneligibleNodes) == 0
}

// refresh returns the index at which a scheduler sees why parts were rejected, or 0 if none were.
// last is the commit that the check included.
func (c *candidate) refresh(last *commit) uint64 {
	if !c.stale && len(c.result.RejectedNodes)+len(c.overQuota) == 0 {
		return 0
	}
	index := c.view.snap.Index()
	if last != nil && last.err == nil {
		index = max(index, last.index)
	}
	return index
}

// request returns the Raft command of the candidate.
func (c *candidate) request() *message.ApplyPlanResultsRequest {
	r := c.result
	req := &message.ApplyPlanResultsRequest{
		EvalID:            c.plan.EvalID,
		Job:               c.job,
		Deployment:        r.Deployment,
		DeploymentUpdates: r.DeploymentUpdates,
		IneligibleNodes:   r.IneligibleNodes,
		UpdatedAt:         c.now.UnixNano(),
	}
	for _, allocs := range r.NodeUpdate {
		for _, a := range allocs {
			req.AllocsStopped = append(req.AllocsStopped, c.stopped(a))
		}
	}
	for _, allocs := range r.NodeAllocation {
		for _, a := range allocs {
			req.AllocsUpdated = append(req.AllocsUpdated, c.updated(a))
		}
	}
	evals := make(map[nomad.NamespacedID]bool)
	for _, allocs := range r.NodePreemptions {
		for _, a := range allocs {
			req.AllocsPreempted = append(req.AllocsPreempted, &nomad.AllocationDiff{
				ID: a.ID, PreemptedByAllocation: a.PreemptedByAllocation, ModifyTime: c.now.UnixNano(),
			})
			if e := c.preemptionEval(a.ID); e != nil && !evals[a.JobNamespacedID()] {
				evals[a.JobNamespacedID()] = true
				req.PreemptionEvals = append(req.PreemptionEvals, e)
			}
		}
	}
	return req
}

// stopped returns the fields of a stopped allocation that the FSM needs in addition to the stored
// ones.
func (c *candidate) stopped(a *nomad.Allocation) *nomad.AllocationDiff {
	return &nomad.AllocationDiff{
		ID:                 a.ID,
		DesiredStatus:      a.DesiredStatus,
		DesiredDescription: a.DesiredDescription,
		ClientStatus:       a.ClientStatus,
		ClientDescription:  a.ClientDescription,
		AllocStates:        a.AllocStates,
		FollowupEvalID:     a.FollowupEvalID,
		RescheduleTracker:  a.RescheduleTracker,
		ModifyTime:         c.now.UnixNano(),
	}
}

// updated returns the allocation as stored in the log: with its identities, and without the job,
// which the command carries once.
func (c *candidate) updated(a *nomad.Allocation) *nomad.Allocation {
	out := c.signed[a.ID]
	if out == nil {
		clone := *a
		out = &clone
	}
	if out.CreateTime == 0 {
		out.CreateTime = c.now.UnixNano()
	}
	out.ModifyTime = c.now.UnixNano()
	if c.job != nil && out.Job != nil && out.Job.Version == c.job.Version && out.Job.CreateIndex == c.job.CreateIndex {
		out.Job = nil
	}
	return out
}

// preemptionEval returns an evaluation that reschedules a preempted allocation, or nil if its job
// does not exist.
func (c *candidate) preemptionEval(allocID string) *nomad.Evaluation {
	a := c.view.snap.Alloc(nil, allocID)
	if a == nil {
		return nil
	}
	job := c.view.snap.Job(nil, a.Namespace, a.JobID)
	if job == nil {
		return nil
	}
	e := nomad.NewEval(job, nomad.EvalTriggerPreemption, c.now)
	e.JobModifyIndex = job.ModifyIndex
	return e
}

// Dry checks a plan against a snapshot as the Applier does, and returns the result with the Raft command that would
// commit it. It signs no identities. Simulations use it.
func Dry(snap *state.Snapshot, p *nomad.Plan, now time.Time) (*nomad.PlanResult, *message.ApplyPlanResultsRequest, error) {
	c := &candidate{plan: p, view: view{snap: snap}, job: p.Job, now: now}
	if c.job == nil && p.JobInfo != nil {
		c.job = snap.Job(nil, p.JobInfo.Namespace, p.JobInfo.ID)
	}
	c.view.job = c.job
	if err := c.checkJob(); err != nil {
		return nil, nil, err
	}
	var err error
	if c.result, _, err = c.view.evaluate(p); err != nil {
		return nil, nil, err
	}
	c.keepQuota()
	c.result.RefreshIndex = c.refresh(nil)
	return c.result, c.request(), nil
}
