package deploy

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Promote promotes the canaries of groups on a user's request.
func (w *Watcher) Promote(ctx context.Context, req *message.DeploymentPromoteRequest) (*message.DeploymentUpdateResponse, error) {
	snap := w.cfg.Store().Snapshot()
	d := snap.Deployment(nil, req.DeploymentID)
	if d == nil {
		return nil, apierror.UnknownDeployment(req.DeploymentID)
	}
	if !d.Active() {
		return nil, apierror.Errorf(400, "can't promote terminal deployment")
	}
	return w.promote(ctx, snap, d, req)
}

// promote writes a promotion. State checks the canaries again, because they can change until the entry is applied. As in
// Nomad 2.0, a promotion without canaries succeeds, and only creates an evaluation. Its entry is that of the evaluation,
// which servers of earlier builds apply too.
func (w *Watcher) promote(ctx context.Context, snap *state.Snapshot, d *nomad.Deployment,
	req *message.DeploymentPromoteRequest) (*message.DeploymentUpdateResponse, error) {
	groups, err := snap.Promotable(d, req)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	eval := newEval(snap, d, now)
	switch {
	case groups > 0:
	case eval == nil: // the job was purged
		return response(nil, snap.Index()), nil
	default:
		index, err := w.cfg.Raft.Apply(ctx, message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{eval}})
		if err != nil {
			return nil, fmt.Errorf("evaluate deployment %s: %w", d.ID, err)
		}
		return response(eval, index), nil
	}
	entry := &message.ApplyDeploymentPromoteRequest{DeploymentPromoteRequest: *req, Eval: eval}
	entry.PromotedAt = now.UnixNano()
	index, err := w.cfg.Raft.Apply(ctx, message.DeploymentPromoteRequestType, entry)
	if err != nil {
		return nil, fmt.Errorf("promote deployment %s: %w", d.ID, err)
	}
	w.cfg.Log.Info("canaries promoted", "deployment", d.ID, "job", d.JobID, "groups", req.Groups, "all", req.All)
	return response(eval, index), nil
}
