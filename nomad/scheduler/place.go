package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// build creates the allocation for a placement.
func (b *base) build(p *reconcile.Placement, o *option, m *nomad.AllocMetric, deployment *nomad.Deployment) *nomad.Allocation {
	a := &nomad.Allocation{
		ID:                 b.newID(),
		Namespace:          b.job.Namespace,
		EvalID:             b.eval.ID,
		Name:               p.Name,
		NodeID:             o.node.ID,
		NodeName:           o.node.Name,
		JobID:              b.job.ID,
		TaskGroup:          p.Group.Name,
		AllocatedResources: o.resources,
		TaskResources:      b.older.of(o.resources),
		Metrics:            m,
		DesiredStatus:      nomad.AllocDesiredStatusRun,
		ClientStatus:       nomad.AllocClientStatusPending,
	}
	if p.Job == nil && deployment != nil && deployment.TaskGroups[p.Group.Name] != nil {
		a.DeploymentID = deployment.ID
	}
	a.Job = p.Job
	if p.Canary {
		a.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: true}
	}
	if prev := p.Previous; prev != nil {
		a.PreviousAllocation = prev.ID
		switch {
		case p.Reschedule != nil:
			a.RescheduleTracker = p.Reschedule.Tracker(prev, b.now())
		case !p.Destructive:
			a.RescheduleTracker = prev.RescheduleTracker
		}
	}
	return a
}

// preferred returns the node that is tried first if it is a candidate, or nil: the target of a move, or the node of the
// previous allocation if the group keeps or migrates its disk.
func (c *cluster) preferred(p *reconcile.Placement) *nomad.Node {
	if p.Previous == nil {
		return nil
	}
	id := p.Previous.NodeID
	if target := p.Previous.DesiredTransition.TargetNode; target != "" && p.Reschedule == nil {
		id = target
	} else if disk := p.Group.EphemeralDisk; disk == nil || !disk.Sticky && !disk.Migrate {
		return nil
	}
	return c.candidate(id)
}

// freed returns the node of the running allocation that an update replaces, if it is a candidate, or nil.
func (c *cluster) freed(p *reconcile.Placement) *nomad.Node {
	if !p.Destructive || p.Previous.ClientTerminalStatus() {
		return nil
	}
	return c.candidate(p.Previous.NodeID)
}

// candidate returns a node if it is one on which the job may be placed, or nil.
func (c *cluster) candidate(id string) *nomad.Node {
	n := c.lookup(id)
	if n == nil || !n.Ready() || !n.IsInPool(c.pool()) || !c.inDatacenter(n) {
		return nil
	}
	return n
}

// avoid returns the nodes on which a rescheduled allocation failed, or the node that a moved allocation leaves.
func avoid(p *reconcile.Placement) map[string]bool {
	switch {
	case p.Previous == nil:
		return nil
	case p.Reschedule == nil && p.Previous.DesiredTransition.TargetNode != "":
		return map[string]bool{p.Previous.NodeID: true}
	case p.Reschedule == nil:
		return nil
	}
	out := map[string]bool{p.Previous.NodeID: true}
	if t := p.Previous.RescheduleTracker; t != nil {
		for _, e := range t.Events {
			out[e.PrevNodeID] = true
		}
	}
	return out
}

// olderForm caches the latest conversion to the resource format of older HTTP API clients:
// allocations of a group often share one value.
type olderForm struct {
	from *nomad.AllocatedResources
	to   map[string]*nomad.Resources
}

func (f *olderForm) of(r *nomad.AllocatedResources) map[string]*nomad.Resources {
	if f.from == r {
		return f.to
	}
	f.from, f.to = r, r.ByTask()
	return f.to
}
