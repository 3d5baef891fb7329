package reconcile

import "github.com/open-nomad/open-nomad/nomad"

// rollout is the deployment side of one reconciliation of a service job.
type rollout struct {
	req *Request
	out *Result
	// current is the latest deployment when it is of this version of the job.
	current *nomad.Deployment
	// held is set while a current deployment is paused or failed; halted only
	// when it failed.
	held, halted bool
	// again is set when the deployment of this version failed and the job was
	// registered once more since: what is still to do joins a new one.
	again bool
	// busy is set when something is still to do, so that the deployment cannot
	// be over.
	busy bool
}

// newRollout looks at the latest deployment and cancels one that the job has
// outgrown.
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
		r.held = r.halted || d.Status == nomad.DeploymentStatusPaused
		if d.Active() {
			out.Deployment = d
		}
	}
	return r
}

// triedAgain says whether a person asked for the version once more after its
// deployment had failed. The plan of such a request has no index yet.
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

// rolls says whether updates of the group go by a deployment: those of services
// with an update block.
func (r *rollout) rolls(tg *nomad.TaskGroup) bool {
	return r.req.Eval.Type == nomad.JobTypeService && tg.Update != nil && tg.Update.MaxParallel > 0
}

// inDeployment says whether the allocation is part of the current deployment.
func (r *rollout) inDeployment(a *nomad.Allocation) bool {
	return r.current != nil && a.DeploymentID == r.current.ID
}

// room returns how many more allocations of the group may be in flux: those of
// the deployment that are not healthy yet use it up.
func (r *rollout) room(tg *nomad.TaskGroup, keep []*nomad.Allocation) int {
	if r.held {
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

// join makes the group part of this version's deployment, which is created by
// the first group that joins. It is not for a group that merely refills what it
// ran already.
func (r *rollout) join(tg *nomad.TaskGroup) {
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
		DesiredTotal:     tg.Count,
	}
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

// finish marks the running deployment successful once nothing is to be done
// and each group is as healthy as wanted.
func (r *rollout) finish() {
	d := r.current
	if d == nil || d.Status != nomad.DeploymentStatusRunning || r.busy {
		return
	}
	for _, s := range d.TaskGroups {
		if s.HealthyAllocs < s.DesiredTotal {
			return
		}
	}
	r.status(d, nomad.DeploymentStatusSuccessful, nomad.DeploymentStatusDescriptionSuccessful)
}
