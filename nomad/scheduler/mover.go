package scheduler

import "github.com/open-nomad/open-nomad/nomad"

// Mover reports where one allocation could run instead of on its node. It makes the checks of a search, as if the
// allocation had stopped. It preempts nothing.
type Mover struct {
	stack *stack
	group *groupStack
}

// NewMover returns a Mover for a live allocation of a job. It returns nil if the job does not have the group of the
// allocation.
func NewMover(snap State, job *nomad.Job, a *nomad.Allocation, opts ...Option) *Mover {
	tg := job.TaskGroup(a.TaskGroup)
	if tg == nil {
		return nil
	}
	s, d := inquiry(snap, job, opts)
	d.stop(a, "", "")
	d.cluster.vacate(a)
	m := &Mover{stack: s, group: s.group(tg)}
	m.group.alloc, m.group.previous = a.Name, a
	return m
}

// Opening is what an allocation would get on a node.
type Opening struct {
	Resources *nomad.AllocatedResources
	scores    scores
}

// Worse reports whether an opening suits the job less than another one: by its affinities, by its spreads, or because
// the node has more allocations of the group. The usage of the nodes does not count.
func (s *Opening) Worse(than *Opening) bool {
	const rounding = 1e-9
	a, b := &s.scores, &than.scores
	return a.anti < b.anti-rounding || a.affinity < b.affinity-rounding || a.spread < b.spread-rounding
}

// On returns what the allocation would get on a node, or nil if it could not run there.
func (m *Mover) On(n *nomad.Node) *Opening {
	c := m.stack.cluster
	if !n.Ready() || !n.IsInPool(c.pool()) || !c.inDatacenter(n) {
		return nil
	}
	o, ok := m.stack.try(m.group, n, nil, m.stack.metric())
	if !ok || c.quota.exceeded(&o, &nomad.AllocMetric{}) {
		return nil
	}
	return &Opening{Resources: o.resources, scores: o.scores}
}
