package deploy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// do applies the action for d.
func (w *Watcher) do(ctx context.Context, snap *state.Snapshot, d *nomad.Deployment, act *action) error {
	switch {
	case act.event != "":
		_, err := w.move(ctx, snap, d, change{act.event, act.revert})
		return err
	case act.promote:
		_, err := w.promote(ctx, snap, d, &message.DeploymentPromoteRequest{DeploymentID: d.ID, All: true})
		return err
	}
	eval := newEval(snap, d, time.Now())
	if eval == nil {
		return nil // the job was purged; the deployment will be removed
	}
	if len(act.replace) == 0 {
		_, err := w.cfg.Raft.Apply(ctx, message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{eval}})
		return err
	}
	yes := true
	req := &message.AllocUpdateDesiredTransitionRequest{
		Allocs: make(map[string]*nomad.DesiredTransition, len(act.replace)),
		Evals:  []*nomad.Evaluation{eval},
	}
	for _, id := range act.replace {
		req.Allocs[id] = &nomad.DesiredTransition{Reschedule: &yes}
	}
	_, err := w.cfg.Raft.Apply(ctx, message.AllocUpdateDesiredTransitionRequestType, req)
	return err
}

// change is an event of a deployment. With revert, the job gets the specification of its latest stable version.
type change struct {
	event  Event
	revert bool
}

// move writes a new status of d. On success the state marks the job version as stable.
func (w *Watcher) move(ctx context.Context, snap *state.Snapshot, d *nomad.Deployment,
	c change) (*message.DeploymentUpdateResponse, error) {
	now := time.Now()
	update, err := move(d, c.event, now.UnixNano())
	if err != nil {
		return nil, err
	}
	var rollback *admission.Admitted
	var reverted *uint64
	if c.revert {
		var suffix string
		rollback, suffix = w.reverting(snap, d, now)
		update.StatusDescription += suffix
		if rollback != nil {
			version := rollback.Job().Version // state gives the copy a new one
			reverted = &version
		}
	}
	var eval *nomad.Evaluation
	if c.event != Complete && c.event != Pause && c.event != Unblock { // nothing to schedule
		eval = newEval(snap, d, now)
	}
	kind, entry := admission.EndDeployment(update, eval, rollback).Entry()
	index, err := w.cfg.Raft.Apply(ctx, kind, entry)
	if err != nil {
		return nil, err
	}
	w.cfg.Log.Info("deployment status changed", "deployment", d.ID, "job", d.JobID, "status", update.Status, "reason",
		update.StatusDescription)
	out := response(eval, index)
	out.RevertedJobVersion = reverted
	return out, nil
}

func response(eval *nomad.Evaluation, index uint64) *message.DeploymentUpdateResponse {
	r := &message.DeploymentUpdateResponse{DeploymentModifyIndex: index, WriteMeta: message.WriteMeta{Index: index}}
	if eval != nil {
		r.EvalID, r.EvalCreateIndex = eval.ID, index
	}
	return r
}

// newEval returns an evaluation of the deployment's job, or nil if the job does not exist.
func newEval(snap *state.Snapshot, d *nomad.Deployment, now time.Time) *nomad.Evaluation {
	job := snap.Job(nil, d.Namespace, d.JobID)
	if job == nil {
		return nil
	}
	e := nomad.NewEval(job, nomad.EvalTriggerDeploymentWatcher, now)
	e.Priority = cmp.Or(d.EvalPriority, job.Priority)
	e.JobModifyIndex, e.DeploymentID = job.ModifyIndex, d.ID
	return e
}

// Fail fails a deployment on a user's request.
func (w *Watcher) Fail(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error) {
	return w.byUser(ctx, id, Fail)
}

// Pause pauses a deployment.
func (w *Watcher) Pause(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error) {
	return w.byUser(ctx, id, Pause)
}

// Resume resumes a paused deployment.
func (w *Watcher) Resume(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error) {
	return w.byUser(ctx, id, Resume)
}

// Unblock completes a deployment that waits for other regions.
func (w *Watcher) Unblock(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error) {
	return w.byUser(ctx, id, Unblock)
}

// Cancel cancels a deployment on a user's request. Its allocations keep running.
func (w *Watcher) Cancel(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error) {
	return w.byUser(ctx, id, Cancel)
}

// Start starts a deployment that waits for other regions.
func (w *Watcher) Start(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error) {
	return w.byUser(ctx, id, Start)
}

func (w *Watcher) byUser(ctx context.Context, id string, event Event) (*message.DeploymentUpdateResponse, error) {
	snap := w.cfg.Store().Snapshot()
	d := snap.Deployment(nil, id)
	if d == nil {
		return nil, apierror.UnknownDeployment(id)
	}
	return w.move(ctx, snap, d, change{event, event == Fail && revertsOnFail(d)})
}

// SetAllocHealth sets the health of allocations on a user's request.
func (w *Watcher) SetAllocHealth(ctx context.Context,
	req *message.DeploymentAllocHealthRequest) (*message.DeploymentUpdateResponse, error) {
	snap := w.cfg.Store().Snapshot()
	d := snap.Deployment(nil, req.DeploymentID)
	if d == nil {
		return nil, apierror.UnknownDeployment(req.DeploymentID)
	}
	if !d.Active() {
		return nil, apierror.Errorf(400, "deployment %s is %s: cannot set the health of its allocations", d.ID, d.Status)
	}
	if err := checkHealthRequest(snap, req); err != nil {
		return nil, err
	}
	now := time.Now()
	eval := newEval(snap, d, now)
	index, err := w.cfg.Raft.Apply(ctx, message.DeploymentAllocHealthRequestType, &message.ApplyDeploymentAllocHealthRequest{
		DeploymentAllocHealthRequest: *req,
		Timestamp:                    now,
		Eval:                         eval,
	})
	if err != nil {
		return nil, fmt.Errorf("set health in deployment %s: %w", d.ID, err)
	}
	return response(eval, index), nil
}

// checkHealthRequest rejects a request that names no allocation, one that is not part of the deployment, or one as both
// healthy and unhealthy.
func checkHealthRequest(snap *state.Snapshot, req *message.DeploymentAllocHealthRequest) error {
	ids := slices.Concat(req.HealthyAllocationIDs, req.UnhealthyAllocationIDs)
	if len(ids) == 0 {
		return apierror.Errorf(400, "must specify at least one allocation as healthy/unhealthy")
	}
	for _, id := range ids {
		a := snap.Alloc(nil, id)
		switch {
		case a == nil || a.DeploymentID != req.DeploymentID:
			return apierror.Errorf(400, "allocation %q is not part of deployment %q", id, req.DeploymentID)
		case slices.Contains(req.HealthyAllocationIDs, id) && slices.Contains(req.UnhealthyAllocationIDs, id):
			return apierror.Errorf(400, "allocation %q is set as both healthy and unhealthy", id)
		}
	}
	return nil
}
