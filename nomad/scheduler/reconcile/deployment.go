package reconcile

import "github.com/open-nomad/open-nomad/nomad"

// rollout is the deployment part of the reconciliation of a service or system job.
type rollout struct {
	req *Request
	out *Result
	// current is the latest deployment if it belongs to this version of the job.
	current *nomad.Deployment
	// onHold is set while the current deployment is paused or failed; halted only if it failed.
	onHold, halted bool
	// again is set if the deployment of this version failed and the job was registered again: the
	// remaining placements join a new deployment.
	again bool
	// busy is set if placements remain, so that the deployment cannot be complete.
	busy bool
}

// newRollout checks the latest deployment and cancels one of an older version.
func newRollout(req *Request, out *Result) *rollout {
	r := &rollout{req: req, out: out}
	d := req.Deployment
	if d == nil {
		return r
	}
	switch {
	case req.Job.Stopped():
		r.cancel(d, nomad.DeploymentStatusDescriptionStoppedJob)
	case d.JobCreateIndex != req.Job.CreateIndex || d.JobVersion != req.Job.Version:
		r.cancel(d, nomad.DeploymentStatusDescriptionNewerJob)
	case triedAgain(req.Eval, d):
		r.again = true
	default:
		r.current = d
		r.halted = d.Status == nomad.DeploymentStatusFailed
		r.onHold = r.halted || d.Status == nomad.DeploymentStatusPaused
		if d.Active() {
			out.Deployment = d
		}
	}
	return r
}

// triedAgain reports whether the version was registered again after its deployment failed. The
// dry-run evaluation of a plan request has no index.
func triedAgain(e *nomad.Evaluation, d *nomad.Deployment) bool {
	return d.Status == nomad.DeploymentStatusFailed && e.TriggeredBy == nomad.EvalTriggerJobRegister &&
		(e.AnnotatePlan || e.CreateIndex > d.ModifyIndex)
}

func (r *rollout) cancel(d *nomad.Deployment, why string) {
	if d.Active() {
		r.status(d, nomad.DeploymentStatusCancelled, why)
	}
}

func (r *rollout) status(d *nomad.Deployment, status, why string) {
	r.out.DeploymentUpdates = append(r.out.DeploymentUpdates, &nomad.DeploymentStatusUpdate{
		DeploymentID:      d.ID,
		Status:            status,
		StatusDescription: why,
		UpdatedAt:         r.req.Now.UnixNano(),
	})
}

// rolls reports whether a deployment controls the updates of the group: that of a service or system job with an
// update block. A system deployment that has begun goes on if a client joins that does not support it.
func (r *rollout) rolls(tg *nomad.TaskGroup) bool {
	if tg.Update == nil || tg.Update.MaxParallel <= 0 {
		return false
	}
	switch r.req.Eval.Type {
	case nomad.JobTypeService:
		return true
	case nomad.JobTypeSystem:
		return r.req.SystemDeployments || r.current != nil
	}
	return false
}

// inDeployment reports whether the allocation belongs to the current deployment.
func (r *rollout) inDeployment(a *nomad.Allocation) bool {
	return r.current != nil && a.DeploymentID == r.current.ID
}

// room returns how many more allocations of the group may be updated: max_parallel minus the
// allocations of the deployment that are not healthy yet.
func (r *rollout) room(tg *nomad.TaskGroup, keep []*nomad.Allocation) int {
	if r.onHold {
		return 0
	}
	room := tg.Update.MaxParallel
	for _, a := range keep {
		if r.inDeployment(a) && !healthy(a) {
			room--
		}
	}
	return max(room, 0)
}

func healthy(a *nomad.Allocation) bool {
	return a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy
}

// join adds the group to the deployment of this version; the first group creates it. A group that
// only replaces missing allocations does not join. canaries is how many run before the promotion, total how many
// run at the end.
func (r *rollout) join(tg *nomad.TaskGroup, canaries, total int) {
	if !r.rolls(tg) || tg.Count == 0 || r.current != nil {
		return
	}
	if r.out.Created == nil {
		r.out.Created = r.create()
		r.out.Deployment = r.out.Created
	}
	u := tg.Update
	r.out.Created.TaskGroups[tg.Name] = &nomad.DeploymentState{
		AutoRevert:       u.AutoRevert,
		AutoPromote:      u.AutoPromote,
		ProgressDeadline: u.ProgressDeadline,
		DesiredCanaries:  canaries,
		DesiredTotal:     total,
	}
	r.out.Created.StatusDescription = r.out.Created.RunningDescription()
}

func (r *rollout) create() *nomad.Deployment {
	job, now := r.req.Job, r.req.Now.UnixNano()
	return &nomad.Deployment{
		ID:                 r.req.NewID(),
		Namespace:          job.Namespace,
		JobID:              job.ID,
		JobVersion:         job.Version,
		JobModifyIndex:     job.ModifyIndex,
		JobSpecModifyIndex: job.JobModifyIndex,
		JobCreateIndex:     job.CreateIndex,
		TaskGroups:         map[string]*nomad.DeploymentState{},
		Status:             nomad.DeploymentStatusRunning,
		StatusDescription:  nomad.DeploymentStatusDescriptionRunning,
		EvalPriority:       r.req.Eval.Priority,
		CreateTime:         now,
		ModifyTime:         now,
	}
}

// finish marks the running deployment successful when nothing remains to be placed and each group
// has enough healthy allocations.
func (r *rollout) finish() {
	d := r.current
	if d == nil || d.Status != nomad.DeploymentStatusRunning || r.busy {
		return
	}
	for _, s := range d.TaskGroups {
		if !s.Complete() {
			return
		}
	}
	r.status(d, nomad.DeploymentStatusSuccessful, nomad.DeploymentStatusDescriptionSuccessful)
}
