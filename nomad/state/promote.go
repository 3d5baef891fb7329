package state

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// PromoteDeployment promotes the canaries of a deployment and stores the evaluation that replaces the other
// allocations. It returns an error if a selected group has fewer healthy canaries than desired. As in Nomad 2.0, a
// request without canaries stores the evaluation only, and unknown groups are ignored: a leader of Nomad writes both.
func (s *Store) PromoteDeployment(index uint64, req *message.ApplyDeploymentPromoteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		d := deployments.Get(t, nil, table.KeyOf(req.DeploymentID))
		if d == nil {
			return apierror.UnknownDeployment(req.DeploymentID)
		}
		if !d.Active() {
			return fmt.Errorf("deployment %q has terminal status %q", d.ID, d.Status)
		}
		placed := slices.Collect(allocs.By(t, nil, "deployment", table.KeyOf(d.ID)))
		canaries := slices.DeleteFunc(placed, func(a *nomad.Allocation) bool { return !a.IsCanary() })
		if _, err := promotable(d, canaries, &req.DeploymentPromoteRequest); err != nil {
			return err
		}
		t.promote(d, canaries, &req.DeploymentPromoteRequest)
		if req.Eval != nil {
			stored := *req.Eval
			t.upsertEvals(&stored)
			t.setJobStatus(stored.Namespace, stored.JobID)
		}
		return nil
	})
}

// Promotable returns how many groups of the deployment the request promotes. It returns an error if it selects an unknown
// group, or one without enough healthy canaries.
func (s *Snapshot) Promotable(d *nomad.Deployment, req *message.DeploymentPromoteRequest) (groups int, err error) {
	for _, name := range req.Groups {
		if d.TaskGroups[name] == nil {
			return 0, apierror.Errorf(400, "Task group %q is not part of deployment %s", name, d.ID)
		}
	}
	return promotable(d, slices.Collect(s.AllocsByDeployment(nil, d.ID)), req)
}

// promotable returns how many selected groups have canaries that are not promoted. Each must have enough healthy ones.
func promotable(d *nomad.Deployment, all []*nomad.Allocation, req *message.DeploymentPromoteRequest) (groups int, err error) {
	healthy := map[string]int{}
	for _, a := range all {
		if a.IsCanary() && !a.TerminalStatus() && health(a) == good {
			healthy[a.TaskGroup]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		g := d.TaskGroups[name]
		if !selects(req, name) || !g.RequiresPromotion() {
			continue
		}
		groups++
		if healthy[name] < g.DesiredCanaries {
			return 0, apierror.Errorf(400, "Task group %q has %d/%d healthy allocations", name, healthy[name], g.DesiredCanaries)
		}
	}
	return groups, nil
}

// selects reports whether the request promotes the group.
func selects(req *message.DeploymentPromoteRequest, group string) bool {
	return req.All || slices.Contains(req.Groups, group)
}

// promote marks the selected groups as promoted. Their canaries become ordinary allocations, and the progress
// deadline of each group starts again.
func (t *txn) promote(old *nomad.Deployment, canaries []*nomad.Allocation, req *message.DeploymentPromoteRequest) {
	d := *old
	d.TaskGroups = maps.Clone(old.TaskGroups)
	for name, g := range old.TaskGroups {
		if !selects(req, name) || !g.RequiresPromotion() {
			continue
		}
		promoted := *g
		promoted.Promoted = true
		if promoted.ProgressDeadline > 0 && req.PromotedAt != 0 {
			promoted.RequireProgressBy = time.Unix(0, req.PromotedAt).Add(promoted.ProgressDeadline).UTC()
		}
		d.TaskGroups[name] = &promoted
	}
	if d.Status == nomad.DeploymentStatusRunning {
		d.StatusDescription = d.RunningDescription()
	}
	d.ModifyIndex = t.Index
	if req.PromotedAt != 0 {
		d.ModifyTime = req.PromotedAt
	}
	deployments.Put(t.Txn, &d)
	for _, a := range canaries {
		if !selects(req, a.TaskGroup) {
			continue
		}
		promoted, status := *a, *a.DeploymentStatus
		status.Canary, status.ModifyIndex = false, t.Index
		promoted.DeploymentStatus = &status
		promoted.ModifyIndex, promoted.AllocModifyIndex = t.Index, t.Index
		allocs.Put(t.Txn, &promoted)
	}
}
