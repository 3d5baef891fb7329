package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var deployments = &table.Table[nomad.Deployment]{
	Name:   TableDeployment,
	Events: true,
	ID:     func(d *nomad.Deployment) table.Key { return table.KeyOf(d.ID) },
	Indexes: []table.Index[nomad.Deployment]{
		{Name: "job", Key: func(d *nomad.Deployment) table.Key { return table.KeyOf(d.Namespace, d.JobID) }},
		{Name: "modified", Key: func(d *nomad.Deployment) table.Key { return table.KeyOf().Number(d.ModifyIndex) }},
	},
}

// Deployment returns the deployment, or nil if there is none.
func (s *Snapshot) Deployment(ws memdb.WatchSet, id string) *nomad.Deployment {
	return deployments.Get(s.tx, ws, table.KeyOf(id))
}

// Deployments returns every deployment.
func (s *Snapshot) Deployments(ws memdb.WatchSet) iter.Seq[*nomad.Deployment] {
	return deployments.All(s.tx, ws)
}

// DeploymentsSince returns the deployments that changed after index, in the order of their
// changes. The watch covers all deployments.
func (s *Snapshot) DeploymentsSince(ws memdb.WatchSet, index uint64) iter.Seq[*nomad.Deployment] {
	deployments.All(s.tx, ws) // arms the watch
	return deployments.From(s.tx, "modified", table.KeyOf().Number(index+1))
}

// DeploymentsByPrefix returns the deployments whose ID begins with p.
func (s *Snapshot) DeploymentsByPrefix(ws memdb.WatchSet, p string) iter.Seq[*nomad.Deployment] {
	return deployments.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(p))
}

// DeploymentsByJob returns the deployments of a job.
func (s *Snapshot) DeploymentsByJob(ws memdb.WatchSet, ns, job string) iter.Seq[*nomad.Deployment] {
	return deployments.By(s.tx, ws, "job", table.KeyOf(ns, job))
}

// LatestDeployment returns the newest deployment of a job, or nil if the job has none.
func (s *Snapshot) LatestDeployment(ws memdb.WatchSet, ns, job string) *nomad.Deployment {
	var latest *nomad.Deployment
	for d := range s.DeploymentsByJob(ws, ns, job) {
		if latest == nil || d.CreateIndex > latest.CreateIndex {
			latest = d
		}
	}
	return latest
}

// putDeployment stores a new deployment, which the caller owns. Of an existing one it updates the totals only: the
// counters and the status may have changed since the scheduler read them.
func (t *txn) putDeployment(d *nomad.Deployment) {
	if old := deployments.Get(t, nil, table.KeyOf(d.ID)); old != nil {
		t.resizeDeployment(old, d)
		return
	}
	d.CreateIndex, d.ModifyIndex = t.Index, t.Index
	deployments.Put(t.Txn, d)
}

// resizeDeployment sets the totals of the groups of an active deployment.
func (t *txn) resizeDeployment(old, sized *nomad.Deployment) {
	d, changed := *old, false
	d.TaskGroups = maps.Clone(old.TaskGroups)
	for name, g := range old.TaskGroups {
		if s := sized.TaskGroups[name]; s != nil && s.DesiredTotal != g.DesiredTotal {
			group := *g
			group.DesiredTotal = s.DesiredTotal
			d.TaskGroups[name], changed = &group, true
		}
	}
	if !changed || !old.Active() {
		return
	}
	d.ModifyIndex = t.Index
	deployments.Put(t.Txn, &d)
}

// UpdateDeploymentStatus changes the status of a deployment. It also registers the job version of
// a revert and stores the evaluation.
func (s *Store) UpdateDeploymentStatus(index uint64, req *message.DeploymentStatusUpdateRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.DeploymentUpdate == nil {
			return fmt.Errorf("update deployment: missing status")
		}
		return t.finishDeployment(req.DeploymentUpdate, req.Job, req.Eval)
	})
}

// finishDeployment sets the status of a deployment, registers the job of a revert and stores the
// evaluation. It returns an error if the deployment is terminal.
func (t *txn) finishDeployment(u *nomad.DeploymentStatusUpdate, revert *nomad.Job, e *nomad.Evaluation) error {
	d, err := t.setDeploymentStatus(u)
	if err != nil {
		return err
	}
	if d == nil {
		return apierror.UnknownDeployment(u.DeploymentID)
	}
	if revert != nil {
		j := *revert
		source := jobSubmissions.Get(t, nil, table.KeyOf(j.Namespace, j.ID).Number(j.Version))
		if err := t.upsertJob(&j, source); err != nil {
			return err
		}
	}
	if e != nil {
		stored := *e
		t.upsertEvals(&stored)
		t.setJobStatus(e.Namespace, e.JobID)
	}
	return nil
}

// setDeploymentStatus stores a status and returns the deployment, or nil if it does not exist. A
// successful deployment marks its job version as stable.
func (t *txn) setDeploymentStatus(u *nomad.DeploymentStatusUpdate) (*nomad.Deployment, error) {
	old := deployments.Get(t, nil, table.KeyOf(u.DeploymentID))
	if old == nil {
		return nil, nil
	}
	if !old.Active() {
		return nil, fmt.Errorf("deployment %q has terminal status %q", old.ID, old.Status)
	}
	d := *old
	d.Status, d.StatusDescription = u.Status, u.StatusDescription
	d.ModifyIndex = t.Index
	if u.UpdatedAt != 0 { // a leader of another build may send no time
		d.ModifyTime = u.UpdatedAt
	}
	if pausedOrResumed(old.Status, d.Status) {
		resetProgress(&d, u.UpdatedAt)
	}
	deployments.Put(t.Txn, &d)
	if d.Status == nomad.DeploymentStatusSuccessful {
		return &d, t.setStable(&message.JobStabilityRequest{JobID: d.JobID, JobVersion: d.JobVersion, Stable: true,
			WriteRequest: message.WriteRequest{Namespace: d.Namespace}})
	}
	return &d, nil
}

// pausedOrResumed reports whether a deployment is paused or resumed by a change of its status.
func pausedOrResumed(from, to string) bool {
	const running, paused = nomad.DeploymentStatusRunning, nomad.DeploymentStatusPaused
	return from == running && to == paused || from == paused && to == running
}

// resetProgress starts a new progress deadline for every group, at the time of a command. A
// command of an earlier version has no time and changes nothing.
func resetProgress(d *nomad.Deployment, at int64) {
	if at == 0 {
		return
	}
	groups := make(map[string]*nomad.DeploymentState, len(d.TaskGroups))
	for name, old := range d.TaskGroups {
		g := *old
		if g.ProgressDeadline > 0 {
			g.RequireProgressBy = time.Unix(0, at).Add(g.ProgressDeadline).UTC()
		}
		groups[name] = &g
	}
	d.TaskGroups = groups
}

// SetAllocHealth records the health of allocations of a deployment, as set by an operator or by
// the deployment watcher.
func (s *Store) SetAllocHealth(index uint64, req *message.ApplyDeploymentAllocHealthRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		d := deployments.Get(t, nil, table.KeyOf(req.DeploymentID))
		if d == nil {
			return apierror.UnknownDeployment(req.DeploymentID)
		}
		if !d.Active() {
			return fmt.Errorf("deployment %q has terminal status %q", d.ID, d.Status)
		}
		healthy := map[bool][]string{true: req.HealthyAllocationIDs, false: req.UnhealthyAllocationIDs}
		for _, verdict := range []bool{true, false} {
			for _, id := range healthy[verdict] {
				if err := t.judgeAlloc(d.ID, id, &nomad.AllocDeploymentStatus{Healthy: &verdict, Timestamp: req.Timestamp}); err != nil {
					return err
				}
			}
		}
		if req.DeploymentUpdate != nil {
			return t.finishDeployment(req.DeploymentUpdate, req.Job, req.Eval)
		}
		if req.Eval != nil {
			stored := *req.Eval
			t.upsertEvals(&stored)
			t.setJobStatus(stored.Namespace, stored.JobID)
		}
		return nil
	})
}

// judgeAlloc sets the health of one allocation.
func (t *txn) judgeAlloc(deployment, id string, said *nomad.AllocDeploymentStatus) error {
	old := allocs.Get(t, nil, table.KeyOf(id))
	if old == nil {
		return apierror.UnknownAlloc(id)
	}
	if old.DeploymentID != deployment {
		return fmt.Errorf("allocation %q is not part of deployment %q", id, deployment)
	}
	a := *old
	setHealth(&a, said, t.Index)
	a.ModifyIndex = t.Index
	t.storeAlloc(&a, old, counts{})
	return nil
}

// DeleteDeployments deletes deployments. Deployments that do not exist are ignored.
func (s *Store) DeleteDeployments(index uint64, req *message.DeploymentDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, id := range req.Deployments {
			if d := deployments.Get(t, nil, table.KeyOf(id)); d != nil {
				deployments.Delete(t.Txn, d)
			}
		}
		return nil
	})
}

// health returns the health of an allocation in its deployment.
func health(a *nomad.Allocation) verdict {
	switch {
	case a.DeploymentStatus == nil || a.DeploymentStatus.Healthy == nil:
		return unknown
	case *a.DeploymentStatus.Healthy:
		return good
	}
	return bad
}

// verdict is the health of an allocation.
type verdict int

const (
	unknown verdict = 0
	good    verdict = 1
	bad     verdict = 2
)

// countInDeployment updates the counters of the deployment of a. old is nil for a new allocation.
// An allocation that moves from another deployment counts as placed.
func (t *txn) countInDeployment(a, old *nomad.Allocation) {
	if a.DeploymentID == "" {
		return
	}
	before := unknown
	placed := old == nil || old.DeploymentID != a.DeploymentID
	if !placed {
		before = health(old)
	}
	if !placed && before == health(a) {
		return
	}
	d := deployments.Get(t, nil, table.KeyOf(a.DeploymentID))
	if d == nil || d.TaskGroups[a.TaskGroup] == nil {
		return
	}
	group := *d.TaskGroups[a.TaskGroup]
	if placed {
		group.PlacedAllocs++
		placeCanary(&group, a)
		startProgress(&group, a)
	}
	addHealth(&group, before, -1)
	addHealth(&group, health(a), 1)
	if health(a) == good {
		progress(&group, a.DeploymentStatus.Timestamp)
	}
	updated := *d
	updated.TaskGroups = maps.Clone(d.TaskGroups)
	updated.TaskGroups[a.TaskGroup] = &group
	updated.ModifyIndex = t.Index
	if a.ModifyTime != 0 {
		updated.ModifyTime = a.ModifyTime
	}
	deployments.Put(t.Txn, &updated)
}

// placeCanary adds a to the placed canaries of the group if it is a canary.
func placeCanary(g *nomad.DeploymentState, a *nomad.Allocation) {
	canary := a.DeploymentStatus != nil && a.DeploymentStatus.Canary
	if canary && !slices.Contains(g.PlacedCanaries, a.ID) {
		g.PlacedCanaries = append(slices.Clone(g.PlacedCanaries), a.ID)
	}
}

// addHealth adds by to the counter of a verdict.
func addHealth(g *nomad.DeploymentState, v verdict, by int) {
	switch v {
	case good:
		g.HealthyAllocs += by
	case bad:
		g.UnhealthyAllocs += by
	}
}

// startProgress sets the progress deadline of the group when its first allocation is placed. For
// an allocation that was updated in place, the deadline counts from the update. A deployment that
// was resumed before has a deadline, which moves.
func startProgress(g *nomad.DeploymentState, a *nomad.Allocation) {
	if g.ProgressDeadline > 0 && (g.RequireProgressBy.IsZero() || g.PlacedAllocs == 1) {
		progress(g, time.Unix(0, a.ModifyTime))
	}
}

// progress moves the progress deadline of the group after an allocation was placed or became
// healthy.
func progress(g *nomad.DeploymentState, at time.Time) {
	if by := at.Add(g.ProgressDeadline); g.ProgressDeadline > 0 && by.After(g.RequireProgressBy) {
		g.RequireProgressBy = by.UTC()
	}
}
