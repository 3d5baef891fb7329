package scheduler

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// stack finds the best node for one more allocation of a group.
type stack struct {
	cluster     *cluster
	eligibility *feasible.Eligibility
	rng         *rand.Rand
	now         func() time.Time
	batch       bool
	preempts    bool
	groups      map[string]*groupStack
	offset      int // start of the next search; it rotates through the nodes
}

// groupStack is the data that a search needs about a group, built once per attempt.
type groupStack struct {
	tg        *nomad.TaskGroup
	ask       *feasible.Ask
	distincts []distinct
	scorer    scorer
	limit     int
	views     map[string]*nodeView // by ID
	ratings   ratings
	differs   bool                   // allocations of the group have different demands
	alloc     string                 // name of the allocation that the search is for
	previous  *nomad.Allocation      // the allocation that ends before it starts, or nil
	shared    []*nomad.VolumeRequest // volumes that depend on other allocations
	csi       *csiSearch             // nil if the group requests no CSI volumes
	varies    bool                   // placements on other nodes decide whether a node is feasible
}

func newStack(b *base, c *cluster) *stack {
	return &stack{
		cluster:     c,
		eligibility: b.eligibility,
		rng:         b.rng,
		now:         b.now,
		batch:       b.eval.Type == nomad.JobTypeBatch || b.eval.Type == nomad.JobTypeSysBatch,
		preempts:    c.preempts(b.job.Type),
		groups:      map[string]*groupStack{},
	}
}

func (s *stack) group(tg *nomad.TaskGroup) *groupStack {
	if g := s.groups[tg.Name]; g != nil {
		return g
	}
	c := s.cluster
	ask := feasible.NewAsk(tg, &c.config)
	g := &groupStack{
		tg:      tg,
		ask:     ask,
		scorer:  newScorer(c, tg, ask),
		views:   map[string]*nodeView{},
		differs: s.eligibility.Differs(tg.Name),
		shared:  sharedVolumes(tg),
		csi:     newCSISearch(tg),
	}
	g.distincts = append(c.tally.distincts(c.job.Constraints, ""), c.tally.distincts(tg.Constraints, tg.Name)...)
	for _, t := range tg.Tasks {
		g.distincts = append(g.distincts, c.tally.distincts(t.Constraints, tg.Name)...)
	}
	if g.scorer.fitOnly { // of a system job, which has one allocation on each node anyway
		g.distincts = slices.DeleteFunc(g.distincts, func(d distinct) bool { return d.property == nil })
	}
	g.varies = g.differs || g.csi != nil || slices.ContainsFunc(g.shared, func(v *nomad.VolumeRequest) bool { return v.Sticky }) ||
		slices.ContainsFunc(g.distincts, func(d distinct) bool { return d.property != nil })
	g.limit = s.limit(g)
	s.groups[tg.Name] = g
	return g
}

// limit is how many nodes are scored before the best is chosen. Scores that compare nodes with one
// another (affinities, spreads) need more.
func (s *stack) limit(g *groupStack) int {
	if g.scorer.compares() {
		limit := int(s.cluster.config.NodeLimitForFeasibilityChecks)
		if limit <= 0 {
			limit = nomad.DefaultNodeLimitForFeasibilityChecks
		}
		return max(g.tg.Count, limit)
	}
	ready := len(s.cluster.ready)
	if s.batch || ready < 4 {
		return 2
	}
	return int(math.Ceil(math.Log2(float64(ready))))
}

// option is a node that could take the allocation.
type option struct {
	node      *nomad.Node
	resources *nomad.AllocatedResources
	scores    scores
	victims   []*nomad.Allocation // allocations to preempt first
}

// search finds the best of the candidates for the allocation of the placement. avoid lists nodes on which the allocation
// failed before. The option is nil if no node fits; the metric gives the reasons.
func (s *stack) search(p *reconcile.Placement, avoid map[string]bool) (*option, *nomad.AllocMetric) {
	return s.find(p, s.cluster.ready, avoid, s.compare)
}

// searchOn is search with one node as the only candidate.
func (s *stack) searchOn(n *nomad.Node, p *reconcile.Placement, avoid map[string]bool) (*option, *nomad.AllocMetric) {
	return s.find(p, []*nomad.Node{n}, avoid, func(g *groupStack, avoid map[string]bool, m *nomad.AllocMetric) (options ranking) {
		m.NodesEvaluated = 1
		if o, ok := s.try(g, n, avoid, m); ok {
			options.add(&o)
		}
		return options
	})
}

// ranker ranks nodes that fit, and records in the metric why others do not.
type ranker func(g *groupStack, avoid map[string]bool, m *nomad.AllocMetric) ranking

// find returns the best node of the ranker. If none of the nodes fits, it preempts allocations.
func (s *stack) find(p *reconcile.Placement, nodes []*nomad.Node, avoid map[string]bool, rank ranker) (*option, *nomad.AllocMetric) {
	began := s.now()
	g := s.group(p.Group)
	s.aim(g, p.Name, p.Previous)
	m := s.metric()
	best := rank(g, avoid, m).best(m)
	if best == nil && m.NodesExhausted > 0 && s.preempts {
		best = s.displace(g, nodes, avoid, m)
	}
	if best == nil {
		exhausted(p.Group, m)
	}
	m.AllocationTime = s.now().Sub(began)
	return best, m
}

// aim prepares a search for an allocation that replaces the previous one, if any.
func (s *stack) aim(g *groupStack, alloc string, previous *nomad.Allocation) {
	g.alloc, g.previous = alloc, nil
	if previous != nil && s.cluster.ends(previous) {
		g.previous = previous
	}
	g.csi.aim(s.cluster, g, previous)
}

// try checks one node, and records in the metric why it does not fit.
func (s *stack) try(g *groupStack, n *nomad.Node, avoid map[string]bool, m *nomad.AllocMetric) (option, bool) {
	v := s.view(g, n)
	if why := s.verdict(g, v); why != "" {
		filter(m, n, why)
		return option{}, false
	}
	if short := v.take(s.cluster, g, s.rng); short != "" {
		exhaust(m, n, short)
		return option{}, false
	}
	return g.option(v, g.scorer.spreads.score(v.spread), avoid), true
}

// option returns the option of a node that fits, given the component of the spreads.
func (g *groupStack) option(v *nodeView, spread mean, avoid map[string]bool) option {
	o := option{node: v.node, resources: v.resources}
	g.scorer.score(v, &o, v.fit, v.devices)
	o.scores.normalize(spread)
	if avoid[v.node.ID] {
		o.scores.penalize()
	}
	return o
}

// volumesInUse reports whether a node suits the group of the latest search, except that other allocations use its volumes,
// or that CSI volumes are not free.
func (s *stack) volumesInUse(tg *nomad.TaskGroup, n *nomad.Node) bool {
	g := s.group(tg)
	if s.view(g, n).why != "" {
		return false
	}
	return len(g.shared) > 0 && s.cluster.volumesTaken(g, n) != "" || g.csi.refuse(s.cluster, n).Waits
}

// verdict returns why the node is not feasible for the group, or "".
func (s *stack) verdict(g *groupStack, v *nodeView) string {
	if v.why != "" {
		return v.why
	}
	return s.conflict(g, v.node)
}

// conflict returns why the node is not feasible beside other allocations, or for the allocation of the search, or "".
func (s *stack) conflict(g *groupStack, n *nomad.Node) (why string) {
	if g.differs {
		why = s.eligibility.CheckFor(g.tg.Name, g.alloc, n)
	}
	if why == "" {
		why = s.cluster.volumesTaken(g, n)
	}
	if why == "" {
		why = g.csi.refuse(s.cluster, n).Text
	}
	for i := 0; why == "" && i < len(g.distincts); i++ {
		why = g.distincts[i].unmet(s.cluster.tally, g.tg.Name, n)
	}
	return why
}

// nodeView caches what the searches for a group need about one node. It is computed again when the node has changed.
type nodeView struct {
	node     *nomad.Node
	why      string // the reason if the node is not feasible, apart from other allocations of the job
	affinity float64
	spread   spreadID
	same     *int // allocations of the group on the node
	at       int  // position of its rating, or -1

	usage *feasible.Usage // nil until the node is first tried
	// The results of Fit and of the scores for the usage at the version. They include the ports, cores and devices.
	version   uint64
	resources *nomad.AllocatedResources
	short     string
	fit       float64
	devices   deviceScore
}

// deviceScore is the score of the assigned devices, if the group has device affinities.
type deviceScore struct {
	value   float64
	applies bool
}

// view returns the view of a node.
func (s *stack) view(g *groupStack, n *nomad.Node) *nodeView {
	v := g.views[n.ID]
	if v == nil {
		v = &nodeView{node: n, at: -1, why: s.eligibility.Check(g.tg.Name, n)}
		if v.why == "" {
			g.scorer.prepare(v)
		}
		g.views[n.ID] = v
	}
	return v
}

// load sets the usage of the node. It returns the reason if the node has none.
func (v *nodeView) load(c *cluster) (fault string) {
	if v.usage == nil {
		if v.usage, fault = c.usage(v.node); v.usage != nil {
			v.version = v.usage.Version() - 1 // nothing is cached
		}
	}
	return fault
}

// take finds the resources for one more allocation. It returns the exhausted dimension, or "".
func (v *nodeView) take(c *cluster, g *groupStack, rng *rand.Rand) (short string) {
	if fault := v.load(c); fault != "" {
		return fault
	}
	if v.version == v.usage.Version() {
		return v.short
	}
	v.version = v.usage.Version()
	if v.resources, v.short = v.usage.Fit(g.ask, rng); v.short == "" {
		v.fit, v.devices = g.scorer.resources(v, v.resources, nil)
	}
	return v.short
}
