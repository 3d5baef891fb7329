package scheduler

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// draft is a plan under construction. It keeps the usage of the cluster up to date, so that each
// placement takes the earlier ones into account.
type draft struct {
	plan    *nomad.Plan
	cluster *cluster
	placed  map[string]bool // IDs of new allocations
}

func newDraft(b *base, c *cluster) *draft {
	d := &draft{
		plan: &nomad.Plan{
			EvalID:          b.eval.ID,
			Priority:        b.eval.Priority,
			Job:             b.job,
			JobInfo:         &nomad.PlanJobTuple{Namespace: b.eval.Namespace, ID: b.eval.JobID},
			NodeUpdate:      map[string][]*nomad.Allocation{},
			NodeAllocation:  map[string][]*nomad.Allocation{},
			NodePreemptions: map[string][]*nomad.Allocation{},
			SnapshotIndex:   b.snap.Index(),
		},
		cluster: c,
		placed:  map[string]bool{},
	}
	if b.job != nil {
		d.plan.Priority = b.job.Priority
		d.plan.AllAtOnce = b.job.AllAtOnce
	}
	c.plan = d.plan
	return d
}

// adopt copies everything from a reconciliation that needs no node.
func (d *draft) adopt(r *reconcile.Result, b *base) {
	d.plan.Deployment = r.Created
	d.plan.DeploymentUpdates = r.DeploymentUpdates
	for _, s := range r.Stop {
		d.stop(s.Alloc, s.Description, s.ClientStatus)
	}
	for _, a := range r.InPlace {
		d.update(d.inPlace(a, r.Deployment, b.eval.ID))
	}
	for _, delay := range r.Delay {
		noted := *delay.Alloc
		if delay.Unknown {
			noted = *delay.Alloc.WithState(nomad.AllocClientStatusUnknown, b.now())
			noted.ClientStatus, noted.ClientDescription = nomad.AllocClientStatusUnknown, nomad.AllocUnknownDescription
		}
		noted.FollowupEvalID = delay.EvalID
		d.update(&noted)
	}
	for _, a := range r.Reconnected {
		back := a.WithState(a.ClientStatus, b.now())
		back.FollowupEvalID = ""
		d.update(back)
	}
	b.annotations = &nomad.PlanAnnotations{DesiredTGUpdates: r.Desired}
	if b.eval.AnnotatePlan {
		d.plan.Annotations = b.annotations
	}
}

// inPlace returns the allocation with the plan's job. A new deployment checks its health again.
func (d *draft) inPlace(a *nomad.Allocation, deployment *nomad.Deployment, evalID string) *nomad.Allocation {
	out := *a
	out.Job = nil // the plan's job
	out.EvalID = evalID
	id := ""
	if deployment != nil && deployment.TaskGroups[a.TaskGroup] != nil {
		id = deployment.ID
	}
	if out.DeploymentID != id {
		out.DeploymentID, out.DeploymentStatus = id, nil
	}
	return &out
}

// stop ends an allocation. Only the fields that a stop needs are sent; the servers find the rest by
// the ID.
func (d *draft) stop(a *nomad.Allocation, why, clientStatus string) {
	d.plan.NodeUpdate[a.NodeID] = append(d.plan.NodeUpdate[a.NodeID], &nomad.Allocation{
		ID: a.ID, Namespace: a.Namespace, EvalID: d.plan.EvalID, Name: a.Name,
		NodeID: a.NodeID, JobID: a.JobID, TaskGroup: a.TaskGroup,
		DesiredStatus:      nomad.AllocDesiredStatusStop,
		DesiredDescription: why,
		ClientStatus:       clientStatus,
		FollowupEvalID:     a.FollowupEvalID,
	})
	d.cluster.ending[a.ID] = true
	d.cluster.sites.stops(a, true)
	if !a.TerminalStatus() {
		d.cluster.release(a)
	}
	if clientStatus == nomad.AllocClientStatusLost && d.cluster.usages[a.NodeID] != nil {
		d.cluster.vacate(a)
	}
}

// unstop removes the latest stop from the allocation's node.
func (d *draft) unstop(a *nomad.Allocation) {
	list := d.plan.NodeUpdate[a.NodeID]
	if n := len(list); n > 0 && list[n-1].ID == a.ID {
		if n == 1 {
			delete(d.plan.NodeUpdate, a.NodeID)
		} else {
			d.plan.NodeUpdate[a.NodeID] = list[:n-1]
		}
		delete(d.cluster.ending, a.ID)
		d.cluster.sites.stops(a, false)
		if !a.TerminalStatus() {
			d.cluster.hold(a)
		}
	}
}

// placeFor adds a new allocation, which starts after the end of its predecessor and of the allocations that it preempts.
func (d *draft) placeFor(a *nomad.Allocation, predecessor *nomad.Allocation, victims []*nomad.Allocation) {
	before := victims
	if predecessor != nil {
		d.cluster.occupy(predecessor)
		if predecessor.NodeID == a.NodeID {
			before = append(slices.Clone(victims), predecessor)
		}
	}
	d.cluster.succeed(a, before...)
	d.preempt(a, victims)
	d.place(a)
}

// yields frees the node of the allocation that a placement replaces while its successor is searched, if the plan stops it.
// It returns nil if the allocation has ended, or if its client does not end it for the successor.
func (d *draft) yields(p *reconcile.Placement) *nomad.Allocation {
	prev := p.Previous
	if prev == nil || prev.ClientTerminalStatus() || !d.cluster.ends(prev) {
		return nil
	}
	d.cluster.vacate(prev)
	return prev
}

// keep undoes the steps before a search that found no node. prev is the result of yields.
func (d *draft) keep(p *reconcile.Placement, prev *nomad.Allocation) {
	if prev != nil {
		d.cluster.occupy(prev)
	}
	if p.StopPrevious != "" {
		d.unstop(p.Previous)
	}
}

// place adds a new allocation.
func (d *draft) place(a *nomad.Allocation) {
	d.placed[a.ID] = true
	d.cluster.hold(a)
	d.cluster.sites.places(d.cluster, a)
	d.cluster.csi.places(d.cluster, a)
	d.plan.NodeAllocation[a.NodeID] = append(d.plan.NodeAllocation[a.NodeID], a)
}

// update adds a changed allocation that holds the same resources as before.
func (d *draft) update(a *nomad.Allocation) {
	d.plan.NodeAllocation[a.NodeID] = append(d.plan.NodeAllocation[a.NodeID], a)
}

// size is the number of allocations that the plan changes.
func (d *draft) size() int {
	n := 0
	for _, m := range []map[string][]*nomad.Allocation{d.plan.NodeUpdate, d.plan.NodeAllocation, d.plan.NodePreemptions} {
		for _, list := range m {
			n += len(list)
		}
	}
	return n
}

func (d *draft) empty() bool {
	return d.size() == 0 && d.plan.Deployment == nil && len(d.plan.DeploymentUpdates) == 0
}

// preempt marks the victims as preempted by an allocation.
func (d *draft) preempt(by *nomad.Allocation, victims []*nomad.Allocation) {
	d.cluster.quota.displaced(victims)
	for _, v := range victims {
		by.PreemptedAllocations = append(by.PreemptedAllocations, v.ID)
		gone := *v
		gone.Job, gone.Metrics, gone.TaskStates = nil, nil, nil
		gone.DesiredStatus = nomad.AllocDesiredStatusEvict
		gone.DesiredDescription = "Preempted by alloc ID " + by.ID
		gone.PreemptedByAllocation = by.ID
		d.plan.NodePreemptions[v.NodeID] = append(d.plan.NodePreemptions[v.NodeID], &gone)
		if a := d.plan.Annotations; a != nil {
			stub := v.Stub(nil)
			stub.PreemptedByAllocation = by.ID
			a.PreemptedAllocs = append(a.PreemptedAllocs, stub)
			if u := a.DesiredTGUpdates[by.TaskGroup]; u != nil {
				u.Preemptions++
			}
		}
	}
}

// notPlaced records on a failed allocation that its replacement found no node. The blocked evaluation tries again.
func (d *draft) notPlaced(p *reconcile.Placement) {
	a := p.Previous
	if p.Reschedule == nil || a == nil || d.cluster.lookup(a.NodeID) == nil || a.ClientStatus != nomad.AllocClientStatusFailed ||
		a.ServerTerminalStatus() {
		return
	}
	t := &nomad.RescheduleTracker{LastReschedule: nomad.LastRescheduleFailedToPlace}
	if old := a.RescheduleTracker; old != nil {
		if old.LastReschedule == t.LastReschedule {
			return
		}
		t.Events = old.Events
	}
	noted := *a
	noted.RescheduleTracker = t
	d.update(&noted)
}

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
