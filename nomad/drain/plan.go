package drain

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// step is what the drains require at one time.
type step struct {
	mark []*nomad.Allocation // to migrate, sorted by job and ID
	done []completion        // sorted by node
	next time.Time           // the next deadline, or zero
}

// completion is a drain that is complete.
type completion struct {
	node     string
	deadline bool // the deadline ended it
}

func (s *step) empty() bool { return len(s.mark)+len(s.done) == 0 }

// until returns until when to wait for the next deadline, or zero for no limit.
func (s *step) until(now time.Time) time.Time {
	if s.next.IsZero() {
		return time.Time{}
	}
	return now.Add(min(maxWait, s.next.Sub(now)))
}

// plan returns the step for the draining nodes of a snapshot. It adds everything that it reads to ws.
func plan(snap *state.Snapshot, ws memdb.WatchSet, now time.Time) *step {
	p := &planner{snap: snap, ws: ws, now: now, out: &step{}, marked: map[string]bool{}, leaving: map[string]bool{}, groups: map[group]bool{}}
	for n := range snap.Nodes(ws) {
		if n.DrainStrategy != nil {
			p.node(n)
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(p.groups), group.compare) {
		p.group(g)
	}
	slices.SortFunc(p.out.mark, func(a, b *nomad.Allocation) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.ID, b.ID))
	})
	return p.out
}

// group is a group of a service job.
type group struct{ namespace, job, name string }

func (g group) compare(o group) int {
	return cmp.Or(cmp.Compare(g.namespace, o.namespace), cmp.Compare(g.job, o.job), cmp.Compare(g.name, o.name))
}

type planner struct {
	snap    *state.Snapshot
	ws      memdb.WatchSet
	now     time.Time
	out     *step
	marked  map[string]bool // IDs of the allocations in out
	leaving map[string]bool // IDs of the draining nodes whose deadline has not passed
	groups  map[group]bool  // with allocations on these nodes
}

// node plans the drain of one node, except for its service allocations.
func (p *planner) node(n *nomad.Node) {
	d, allocs := n.DrainStrategy, p.snap.AllocsByNode(p.ws, n.ID)
	if over(d, p.now) {
		for a := range allocs {
			if concerns(d, a) {
				p.mark(a)
			}
		}
		p.out.done = append(p.out.done, completion{node: n.ID, deadline: true})
		return
	}
	if at := d.ForceDeadline; !at.IsZero() && (p.out.next.IsZero() || at.Before(p.out.next)) {
		p.out.next = at
	}
	p.leaving[n.ID] = true
	busy, last := p.remaining(allocs, d)
	switch {
	case busy:
	case len(last) == 0:
		p.out.done = append(p.out.done, completion{node: n.ID})
	default:
		for _, a := range last {
			if kindOf(a) != plugin || !p.mounted(n, a) {
				p.mark(a)
			}
		}
	}
}

// over reports whether the drain stops everything now.
func over(d *nomad.DrainStrategy, now time.Time) bool {
	return d.Deadline < 0 || !d.ForceDeadline.IsZero() && !now.Before(d.ForceDeadline)
}

// concerns reports whether a drain stops the allocation, or waits for its end.
func concerns(d *nomad.DrainStrategy, a *nomad.Allocation) bool {
	return !(d.IgnoreSystemJobs && kindOf(a) == system)
}

// Remains reports whether the drain of a node is not complete because of an allocation, unless its deadline has passed.
// This is the only rule for it.
func Remains(d *nomad.DrainStrategy, a *nomad.Allocation) bool {
	return !a.ClientTerminalStatus() && concerns(d, a)
}

// remaining reports whether a node has allocations that must end first. last are those that stay until
// then and have not ended.
func (p *planner) remaining(allocs iter.Seq[*nomad.Allocation], d *nomad.DrainStrategy) (busy bool, last []*nomad.Allocation) {
	for a := range allocs {
		if !Remains(d, a) {
			continue
		}
		switch kindOf(a) {
		case system, plugin:
			last = append(last, a)
			continue
		case service:
			p.groups[group{a.Namespace, a.JobID, a.TaskGroup}] = true
		}
		busy = true
	}
	return busy, last
}

// group marks the allocations of a service group that may leave now.
func (p *planner) group(g group) {
	var leave []*nomad.Allocation
	healthy := 0
	for a := range p.snap.AllocsByJob(p.ws, g.namespace, g.job) {
		if a.TaskGroup != g.name || !markable(a) || p.marked[a.ID] {
			continue
		}
		if decided(a) {
			healthy++
		}
		if p.leaving[a.NodeID] && kindOf(a) == service {
			leave = append(leave, a)
		}
	}
	slices.SortFunc(leave, func(a, b *nomad.Allocation) int {
		return cmp.Or(cmp.Compare(a.Index(), b.Index()), cmp.Compare(a.ID, b.ID))
	})
	n := len(leave)
	job := p.snap.Job(p.ws, g.namespace, g.job)
	if !job.Stopped() {
		if tg := job.TaskGroup(g.name); tg != nil {
			n = room(tg, healthy)
		}
	}
	for _, a := range leave[:max(0, min(n, len(leave)))] {
		p.mark(a)
	}
}

// mark adds the allocation to the step, unless it is marked already.
func (p *planner) mark(a *nomad.Allocation) {
	if markable(a) && !p.marked[a.ID] {
		p.marked[a.ID] = true
		p.out.mark = append(p.out.mark, a)
	}
}

// room returns how many allocations of the group may leave if this number of its allocations has a
// decided health.
func room(tg *nomad.TaskGroup, healthy int) int {
	parallel := 1
	if tg.Migrate != nil {
		parallel = tg.Migrate.MaxParallel
	}
	if parallel == 0 {
		return 0
	}
	return healthy - (tg.Count - parallel)
}

// markable reports whether the allocation is live and not asked to migrate.
func markable(a *nomad.Allocation) bool {
	m := a.DesiredTransition.Migrate
	return !a.TerminalStatus() && (m == nil || !*m)
}

// decided reports whether the allocation's health is known. An unhealthy one counts too: it would
// otherwise keep the drain of its group from advancing.
func decided(a *nomad.Allocation) bool {
	return a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil
}

// kind selects the rule for an allocation.
type kind int

const (
	service  kind = 0
	batch    kind = 1
	sysbatch kind = 2
	system   kind = 3
	plugin   kind = 4
)

func kindOf(a *nomad.Allocation) kind {
	if a.Job == nil {
		return service
	}
	if tg := a.Job.TaskGroup(a.TaskGroup); tg != nil &&
		slices.ContainsFunc(tg.Tasks, func(t *nomad.Task) bool { return t.CSIPluginConfig != nil }) {
		return plugin
	}
	switch a.Job.Type {
	case nomad.JobTypeBatch:
		return batch
	case nomad.JobTypeSysBatch:
		return sysbatch
	case nomad.JobTypeSystem:
		return system
	}
	return service
}

// Room returns how many allocations of a group of a service job may leave their nodes now: the max_parallel of its
// migrate block, minus those that are missing or have no decided health yet. It is zero or negative if none may.
// Drains use the same rule.
func Room(snap *state.Snapshot, job *nomad.Job, tg *nomad.TaskGroup) int {
	decidedHealth := 0
	for a := range snap.AllocsByJob(nil, job.Namespace, job.ID) {
		if a.TaskGroup == tg.Name && markable(a) && decided(a) {
			decidedHealth++
		}
	}
	return room(tg, decidedHealth)
}
