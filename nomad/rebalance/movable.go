package rebalance

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/drain"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// hindrances finds the reasons why allocations may not move. It caches those that apply to a complete group.
type hindrances struct {
	snap   *state.Snapshot
	groups map[groupKey]string
}

type groupKey struct{ namespace, job, group string }

func newHindrances(snap *state.Snapshot) *hindrances {
	return &hindrances{snap: snap, groups: map[groupKey]string{}}
}

// of returns why a live allocation may not move, or "". An allocation may move if it is a running and healthy
// allocation of the current version of a service job, and the job has no active deployment.
func (h *hindrances) of(a *nomad.Allocation) string {
	k := groupKey{a.Namespace, a.JobID, a.TaskGroup}
	why, known := h.groups[k]
	if !known {
		why = ofGroup(h.snap, k)
		h.groups[k] = why
	}
	if why != "" {
		return why
	}
	move, health, job := a.DesiredTransition.Migrate, a.DeploymentStatus, h.snap.Job(nil, a.Namespace, a.JobID)
	switch {
	case move != nil && *move:
		return "already migrating"
	case a.DesiredStatus != nomad.AllocDesiredStatusRun, a.ClientStatus != nomad.AllocClientStatusRunning:
		return "not running"
	case a.IsCanary():
		return "canary"
	case health == nil, health.Healthy == nil, !*health.Healthy:
		return "not healthy"
	case a.Job == nil, a.Job.Version != job.Version, a.Job.CreateIndex != job.CreateIndex:
		return "of an older version of its job"
	}
	return ""
}

// ofGroup returns why no allocation of a group may move, or "".
func ofGroup(snap *state.Snapshot, k groupKey) string {
	job := snap.Job(nil, k.namespace, k.job)
	if job.Stopped() {
		return "of a stopped job"
	}
	if job.Type != nomad.JobTypeService {
		return "of a " + job.Type + " job"
	}
	tg := job.TaskGroup(k.group)
	if tg == nil {
		return "of a group that the job no longer has"
	}
	d := snap.LatestDeployment(nil, k.namespace, k.job)
	switch {
	case d != nil && d.Active():
		return "of a job with an active deployment"
	case tg.Migrate != nil && tg.Migrate.MaxParallel == 0:
		return "of a group with migrate.max_parallel = 0"
	case tg.EphemeralDisk != nil && (tg.EphemeralDisk.Sticky || tg.EphemeralDisk.Migrate):
		return "with a sticky disk"
	}
	for _, v := range tg.Volumes {
		if v != nil && v.Sticky {
			return "with a sticky volume"
		}
	}
	if slices.ContainsFunc(tg.Tasks, func(t *nomad.Task) bool { return t.CSIPluginConfig != nil }) {
		return "of a CSI plugin"
	}
	return ""
}

// Refusal returns why an allocation may not move to a node now, or nil. Unlike Plan it ignores the load of the nodes
// and the scores of affinities and spreads. In addition, enough other allocations of the group must be healthy.
func Refusal(snap *state.Snapshot, a *nomad.Allocation, nodeID string, o scheduler.Options) error {
	if a.TerminalStatus() {
		return fmt.Errorf("allocation %s is not running", a.ID)
	}
	if why := newHindrances(snap).of(a); why != "" {
		return fmt.Errorf("allocation %s may not move: it is %s", a.ID, why)
	}
	n := snap.Node(nil, nodeID)
	switch {
	case n == nil:
		return fmt.Errorf("node %s does not exist", nodeID)
	case n.ID == a.NodeID:
		return fmt.Errorf("allocation %s is already on node %s", a.ID, nodeID)
	}
	job := snap.Job(nil, a.Namespace, a.JobID)
	if m := scheduler.NewMover(snap, job, a, o); m == nil || m.On(n) == nil {
		return fmt.Errorf("allocation %s cannot run on node %s", a.ID, nodeID)
	}
	if drain.Room(snap, job, job.TaskGroup(a.TaskGroup)) < 1 {
		return fmt.Errorf("too few other allocations of group %q of job %q are healthy: its migrate block allows no move now",
			a.TaskGroup, a.JobID)
	}
	return nil
}
