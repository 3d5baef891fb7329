package scheduler

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// Names of checks in addition to those of package feasible.
const (
	checkNode       = "node"
	checkPool       = "pool"
	checkDatacenter = "datacenter"
	checkPreemption = "preemption"
	checkQuota      = "quota"
)

// Explainer reports the checks of nodes for one more allocation of a group, in the order of a
// search. They are the same checks that a search makes, but it does not end at the first failure.
// Allocations that the next plan would stop count.
type Explainer struct {
	job   *nomad.Job
	stack *stack
}

// NewExplainer returns an Explainer for a job, which need not be in the state.
func NewExplainer(snap State, job *nomad.Job, o Options) *Explainer {
	if job.Stopped() {
		running := *job
		running.Stop = false
		job = &running
	}
	s, _ := inquiry(snap, job, o)
	return &Explainer{job: job, stack: s}
}

// inquiry returns a stack that searches for a job without an evaluation, and its plan, which is empty.
func inquiry(snap State, job *nomad.Job, o Options) (*stack, *draft) {
	of := o.base(snap)
	b := &of
	b.job, b.eval = job, &nomad.Evaluation{Type: job.Type, Namespace: job.Namespace, JobID: job.ID}
	b.eligibility = feasible.NewEligibility(job, b.rules())
	c := newCluster(snap, job, b.eval, b.rng)
	var allocs []*nomad.Allocation
	for a := range snap.AllocsByJob(nil, job.Namespace, job.ID) {
		allocs = append(allocs, a)
	}
	c.tally.load(allocs)
	d := newDraft(b, c)
	return newStack(b, c), d
}

// NodeResult is the result of the checks of a node.
type NodeResult struct {
	Checks []feasible.Check
	Fits   bool // the node can take one more allocation, perhaps by preemption
	Score  float64
}

// Failed returns the index of the first check that failed, or the number of checks.
func (r *NodeResult) Failed() int {
	for i := range r.Checks {
		if !r.Checks[i].Passed {
			return i
		}
	}
	return len(r.Checks)
}

// Node checks a node for a group of the job.
func (e *Explainer) Node(tg *nomad.TaskGroup, n *nomad.Node) *NodeResult {
	g := e.stack.group(tg)
	if g.alloc == "" {
		e.stack.aim(g, e.next(tg), nil)
	}
	return e.stack.explain(g, n)
}

// next returns the name of the first allocation of the group that is not running.
func (e *Explainer) next(tg *nomad.TaskGroup) string {
	live := map[string]bool{}
	for _, a := range e.stack.cluster.tally.live {
		live[a.Name] = true
	}
	for i := 0; ; i++ {
		if name := nomad.AllocName(e.job.ID, tg.Name, uint(i)); !live[name] {
			return name
		}
	}
}

// explain is try without an end at the first failure.
func (s *stack) explain(g *groupStack, n *nomad.Node) *NodeResult {
	out := &NodeResult{}
	record := func(c feasible.Check) { out.Checks = append(out.Checks, c) }
	s.cluster.explain(n, record)
	s.eligibility.Explain(g.tg.Name, g.alloc, n, record)
	if len(g.shared) > 0 {
		why := s.cluster.volumesTaken(g, n)
		record(feasible.Check{Name: feasible.CheckVolumes, Passed: why == "", Need: "claimed volumes and single writers", Found: why})
	}
	g.csi.explain(s.cluster, n, record)
	for i := range g.distincts {
		why := g.distincts[i].unmet(s.cluster.tally, g.tg.Name, n)
		record(feasible.Check{Name: feasible.CheckConstraint, Passed: why == "", Need: g.distincts[i].need(), Found: why})
	}
	feasibly := out.Failed() == len(out.Checks)
	v := s.view(g, n)
	if fault := v.load(s.cluster); fault != "" {
		record(feasible.Check{Name: feasible.CheckResources, Need: "resources", Found: fault})
		return out
	}
	u := v.usage
	u.Explain(g.ask, s.rng, record)
	o := option{node: n}
	fits := false
	if resources, short := u.Fit(g.ask, s.rng); short == "" {
		o.resources, fits = resources, true
	} else if s.preempts {
		o.victims, o.resources, fits = u.Preempt(g.ask, s.rng, s.cluster.preemption())
		record(feasible.Check{Name: checkPreemption, Passed: fits, Need: "allocations of lower priority to preempt",
			Found: fmt.Sprintf("%d", len(o.victims))})
	}
	if !fits {
		return out
	}
	within := s.cluster.quota.explain(&o, record)
	out.Fits = feasibly && within
	if v.why != "" { // not prepared
		g.scorer.prepare(v)
	}
	fit, devices := g.scorer.resources(v, o.resources, o.victims)
	g.scorer.score(v, &o, fit, devices)
	o.scores.normalize(g.scorer.spreads.score(v.spread))
	out.Score = o.scores.norm
	return out
}

// explain reports whether the node is one of the candidates, see candidates.
func (c *cluster) explain(n *nomad.Node, f func(feasible.Check)) {
	f(feasible.Check{Name: checkPool, Passed: n.IsInPool(c.pool()), Need: fmt.Sprintf("node pool %q", c.pool()), Found: n.NodePool})
	if len(c.job.Datacenters) > 0 {
		f(feasible.Check{Name: checkDatacenter, Passed: c.inDatacenter(n), Need: "datacenter " + strings.Join(c.job.Datacenters, ", "),
			Found: n.Datacenter})
	}
	found := n.Status + ", " + n.SchedulingEligibility
	if n.DrainStrategy != nil {
		found += ", draining"
	}
	f(feasible.Check{Name: checkNode, Passed: n.Ready(), Need: "ready and eligible", Found: found})
}

// need describes the constraint.
func (d *distinct) need() string {
	if d.property == nil {
		return d.text
	}
	return fmt.Sprintf("%s %s, limit %d", nomad.ConstraintDistinctProperty, d.text, d.limit)
}

// explain reports whether the quota allows the option.
func (q *quotaUse) explain(o *option, f func(feasible.Check)) bool {
	if q == nil {
		return true
	}
	m := &nomad.AllocMetric{}
	over := q.exceeded(o, m)
	f(feasible.Check{Name: checkQuota, Passed: !over, Need: fmt.Sprintf("quota %q", q.name), Found: strings.Join(m.QuotaExhausted, ", ")})
	return !over
}

// Mover reports where one allocation could run instead of on its node. It makes the checks of a search, as if the
// allocation had stopped. It preempts nothing.
type Mover struct {
	stack *stack
	group *groupStack
}

// NewMover returns a Mover for a live allocation of a job. It returns nil if the job does not have the group of the
// allocation.
func NewMover(snap State, job *nomad.Job, a *nomad.Allocation, o Options) *Mover {
	tg := job.TaskGroup(a.TaskGroup)
	if tg == nil {
		return nil
	}
	s, d := inquiry(snap, job, o)
	d.stop(a, "", "")
	d.cluster.vacate(a)
	m := &Mover{stack: s, group: s.group(tg)}
	s.aim(m.group, a.Name, a)
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
