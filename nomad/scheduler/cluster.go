package scheduler

import (
	"encoding/binary"
	"iter"
	legacy "math/rand" // the generator of Nomad: with the same seed, both visit nodes in the same order
	"math/rand/v2"
	"slices"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// cluster is the state as one attempt sees it: the nodes that the job may use, and their usage as
// if the plan were committed now.
type cluster struct {
	snap   State
	job    *nomad.Job
	plan   *nomad.Plan
	config nomad.SchedulerConfiguration
	// ready lists the candidates in the order in which they are visited; byDC counts them by datacenter.
	ready  []*nomad.Node
	order  int64 // seed of that order
	inPool int
	byDC   map[string]int
	usages map[string]*feasible.Usage
	ending map[string]bool // IDs of the allocations that the plan stops
	sites  sites
	csi    *csiSites
	nodes  map[string]*nomad.Node
	tally  *tally
	quota  *quotaUse
	// changed lists the nodes whose usage or whose allocations of the job changed, in that order.
	changed *[]string
}

func newCluster(snap State, job *nomad.Job, eval *nomad.Evaluation, rng *rand.Rand) *cluster {
	c := &cluster{
		snap:   snap,
		job:    job,
		byDC:   map[string]int{},
		usages: map[string]*feasible.Usage{},
		ending: map[string]bool{},
		sites:  newSites(),
		csi:    newCSISites(),
		nodes:  map[string]*nomad.Node{},

		changed: new([]string),
	}
	c.tally = newTally(c.lookup)
	if _, cfg := snap.SchedulerConfig(nil); cfg != nil {
		c.config = *cfg
	}
	if job.Stopped() {
		return c
	}
	c.quota = newQuotaUse(snap, job)
	c.poolOverrides()
	c.candidates()
	c.order = visitSeed(eval, snap.Index(), rng)
	c.shuffle()
	return c
}

// ofVersion returns the cluster as an older version of the job sees it. Both share the usage and the plan.
func (c *cluster) ofVersion(job *nomad.Job) *cluster {
	out := *c
	out.job, out.ready, out.inPool, out.byDC = job, nil, 0, map[string]int{}
	out.candidates()
	out.shuffle()
	return &out
}

// poolOverrides applies the scheduler settings of the job's node pool.
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

// Candidates yields the nodes on which a job may be placed: those that are ready, in its pool and in
// its datacenters.
func Candidates(snap State, job *nomad.Job) iter.Seq[*nomad.Node] {
	c := &cluster{snap: snap, job: job}
	return func(yield func(*nomad.Node) bool) {
		for n := range c.ofPool() {
			if n.Ready() && c.inDatacenter(n) && !yield(n) {
				return
			}
		}
	}
}

// ofPool yields the nodes of the job's pool.
func (c *cluster) ofPool() iter.Seq[*nomad.Node] {
	if pool := c.pool(); pool != nomad.NodePoolAll {
		return c.snap.NodesByPool(nil, pool)
	}
	return c.snap.Nodes(nil)
}

func (c *cluster) candidates() {
	for n := range c.ofPool() {
		c.inPool++
		if n.Ready() && c.inDatacenter(n) {
			c.ready = append(c.ready, n)
			c.byDC[n.Datacenter]++
		}
	}
}

// inDatacenter reports whether one of the job's patterns matches the node's datacenter. A job
// without patterns runs in any datacenter.
func (c *cluster) inDatacenter(n *nomad.Node) bool {
	return len(c.job.Datacenters) == 0 ||
		slices.ContainsFunc(c.job.Datacenters, func(p string) bool { return untrusted.GlobMatch(p, n.Datacenter) })
}

// lookup returns a node of the state, or nil if it does not exist.
func (c *cluster) lookup(id string) *nomad.Node {
	n, ok := c.nodes[id]
	if !ok {
		n = c.snap.Node(nil, id)
		c.nodes[id] = n
	}
	return n
}

// suits reports whether an allocation may remain on its node under the new version of its group.
// The scheduling eligibility of the node is ignored.
func (c *cluster) suits(e *feasible.Eligibility, a *nomad.Allocation, tg *nomad.TaskGroup) bool {
	n := c.lookup(a.NodeID)
	return n != nil && n.IsInPool(c.pool()) && c.inDatacenter(n) && e.Check(tg.Name, n) == "" && e.CheckFor(tg.Name, a.Name, n) == ""
}

// usage returns the usage of a node. It is computed from the state and the plan on first use. If the node never
// reported its resources, or reported ports that are not valid, usage is nil and the text gives the reason.
func (c *cluster) usage(n *nomad.Node) (usage *feasible.Usage, fault string) {
	if u, ok := c.usages[n.ID]; ok {
		if u == nil {
			return nil, unusable(n)
		}
		return u, ""
	}
	u, err := feasible.NewUsage(n)
	if err != nil {
		c.usages[n.ID] = nil
		return nil, unusable(n)
	}
	for a := range c.snap.LiveAllocsByNode(n.ID) {
		u.Add(a)
	}
	for _, a := range c.plan.NodeUpdate[n.ID] {
		if a.ClientTerminalStatus() { // lost; others use their node until their client ends them
			u.Remove(a.ID)
		}
	}
	for _, a := range c.plan.NodeAllocation[n.ID] {
		u.Add(a) // an allocation updated in place is already counted
	}
	c.usages[n.ID] = u
	return u, ""
}

// unusable returns why a node has no usage.
func unusable(n *nomad.Node) string {
	if n.NodeResources == nil {
		return feasible.ErrNoResources.Error()
	}
	return feasible.DimensionInvalidNode
}

// hold counts an allocation of the job that the plan adds or keeps.
func (c *cluster) hold(a *nomad.Allocation) {
	c.change(a)
	if u := c.usages[a.NodeID]; u != nil {
		u.Add(a)
	}
	c.quota.count(a, 1)
	c.tally.add(a, 1)
}

// change records that the node of an allocation changed.
func (c *cluster) change(a *nomad.Allocation) { *c.changed = append(*c.changed, a.NodeID) }

// ends reports whether the plan stops the allocation.
func (c *cluster) ends(a *nomad.Allocation) bool { return c.ending[a.ID] }

// release subtracts an allocation of the job that the plan stops from what the job has. It uses its node until its client
// ends it.
func (c *cluster) release(a *nomad.Allocation) {
	c.change(a)
	c.quota.count(a, -1)
	c.tally.add(a, -1)
}

// vacate frees what an allocation uses on its node: for its successor, which starts after its end, or because its client
// is lost.
func (c *cluster) vacate(a *nomad.Allocation) {
	c.change(a)
	if n := c.lookup(a.NodeID); n != nil {
		if u, _ := c.usage(n); u != nil {
			u.Remove(a.ID)
		}
	}
}

// occupy counts an allocation on its node again.
func (c *cluster) occupy(a *nomad.Allocation) {
	c.change(a)
	if u := c.usages[a.NodeID]; u != nil {
		u.Add(a)
	}
}

// succeed counts a placed allocation, which starts after the end of others on its node.
func (c *cluster) succeed(by *nomad.Allocation, others ...*nomad.Allocation) {
	c.change(by)
	if u := c.usages[by.NodeID]; u != nil {
		u.Succeed(by, others...)
	}
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

// visitSeed returns the seed of the order in which an evaluation visits nodes. Each evaluation has an order of its own,
// so that parallel evaluations choose different nodes. An evaluation without an ID, such as that of an Explainer, gets
// a random one.
func visitSeed(eval *nomad.Evaluation, index uint64, rng *rand.Rand) int64 {
	id := eval.ID
	if len(id) < 8 {
		return int64(rng.Uint64() >> 2)
	}
	return int64((binary.BigEndian.Uint64([]byte(id[len(id)-8:])) ^ index) >> 2)
}

// shuffle orders the candidates by the seed.
func (c *cluster) shuffle() {
	r := legacy.New(legacy.NewSource(c.order))
	for i := len(c.ready) - 1; i > 0; i-- {
		j := r.Intn(i + 1)
		c.ready[i], c.ready[j] = c.ready[j], c.ready[i]
	}
}
