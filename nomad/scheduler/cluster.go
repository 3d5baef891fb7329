package scheduler

import (
	"math/rand/v2"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// cluster is the state as one attempt sees it: the nodes that the job may use,
// and what would be held on each if the plan were committed now.
type cluster struct {
	snap   State
	job    *nomad.Job
	plan   *nomad.Plan
	config nomad.SchedulerConfiguration
	// ready are the candidates in random order; byDC counts them.
	ready  []*nomad.Node
	inPool int
	byDC   map[string]int
	usages map[string]*feasible.Usage
	nodes  map[string]*nomad.Node
	tally  *tally
	quota  *quota
}

func newCluster(snap State, job *nomad.Job, eval *nomad.Evaluation, rng *rand.Rand) *cluster {
	c := &cluster{
		snap:   snap,
		job:    job,
		byDC:   map[string]int{},
		usages: map[string]*feasible.Usage{},
		nodes:  map[string]*nomad.Node{},
	}
	c.tally = newTally(c.lookup)
	if _, cfg := snap.SchedulerConfig(nil); cfg != nil {
		c.config = *cfg
	}
	if job.Stopped() {
		return c
	}
	c.quota = newQuota(snap, job)
	c.poolOverrides()
	c.candidates()
	rng.Shuffle(len(c.ready), func(i, j int) { c.ready[i], c.ready[j] = c.ready[j], c.ready[i] })
	return c
}

// poolOverrides lets the job's node pool overrule the scheduler configuration.
func (c *cluster) poolOverrides() {
	pool := c.snap.NodePool(nil, c.pool())
	if pool == nil || pool.SchedulerConfiguration == nil {
		return
	}
	if a := pool.SchedulerConfiguration.SchedulerAlgorithm; a != "" {
		c.config.SchedulerAlgorithm = a
	}
	c.config.MemoryOversubscriptionEnabled = pool.MemoryOversubscription(&c.config)
}

func (c *cluster) pool() string {
	if c.job.NodePool == "" {
		return nomad.NodePoolDefault
	}
	return c.job.NodePool
}

func (c *cluster) candidates() {
	nodes := c.snap.Nodes(nil)
	if pool := c.pool(); pool != nomad.NodePoolAll {
		nodes = c.snap.NodesByPool(nil, pool)
	}
	for n := range nodes {
		c.inPool++
		if n.Ready() && c.inDatacenter(n) {
			c.ready = append(c.ready, n)
			c.byDC[n.Datacenter]++
		}
	}
}

// inDatacenter says whether one of the job's patterns matches the node's
// datacenter. A job without patterns runs anywhere.
func (c *cluster) inDatacenter(n *nomad.Node) bool {
	return len(c.job.Datacenters) == 0 ||
		slices.ContainsFunc(c.job.Datacenters, func(p string) bool { return nomad.GlobMatch(p, n.Datacenter) })
}

// lookup returns a node of the state, nil when it is gone.
func (c *cluster) lookup(id string) *nomad.Node {
	n, ok := c.nodes[id]
	if !ok {
		n = c.snap.Node(nil, id)
		c.nodes[id] = n
	}
	return n
}

// suits says whether an allocation may stay where it is as one of the group's
// new version. That the node is not eligible for new work does not matter.
func (c *cluster) suits(e *feasible.Eligibility, a *nomad.Allocation, tg *nomad.TaskGroup) bool {
	n := c.lookup(a.NodeID)
	return n != nil && n.IsInPool(c.pool()) && c.inDatacenter(n) && e.Check(tg.Name, n) == "" && e.CheckFor(tg.Name, a.Name, n) == ""
}

// usage returns the sums of a node, made from the state and the plan on first
// use; nil when the node never said what it has.
func (c *cluster) usage(n *nomad.Node) *feasible.Usage {
	if u, ok := c.usages[n.ID]; ok {
		return u
	}
	u, err := feasible.NewUsage(n)
	if err != nil {
		c.usages[n.ID] = nil
		return nil
	}
	for a := range c.snap.LiveAllocsByNode(n.ID) {
		u.Add(a)
	}
	for _, a := range c.plan.NodeUpdate[n.ID] {
		u.Remove(a.ID)
	}
	for _, a := range c.plan.NodePreemptions[n.ID] {
		u.Remove(a.ID)
	}
	for _, a := range c.plan.NodeAllocation[n.ID] {
		u.Add(a) // an updated one is there already
	}
	c.usages[n.ID] = u
	return u
}

// hold counts an allocation of the job that the plan adds or keeps.
func (c *cluster) hold(a *nomad.Allocation) {
	if u := c.usages[a.NodeID]; u != nil {
		u.Add(a)
	}
	c.quota.count(a, 1)
	c.tally.add(a, 1)
}

// release gives back what an allocation of the job holds.
func (c *cluster) release(a *nomad.Allocation) {
	if u := c.usages[a.NodeID]; u != nil {
		u.Remove(a.ID)
	}
	c.quota.count(a, -1)
	c.tally.add(a, -1)
}
