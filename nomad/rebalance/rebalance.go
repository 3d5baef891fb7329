// Package rebalance finds moves of allocations that even out the usage of nodes.
//
//	snapshot ─▶ loads of the nodes ─▶ best move of the most loaded node ─▶ view with the move ─┐
//	                  ▲                                                                       │
//	                  └──── until no move helps, or the number of moves is reached ───────────┘
//
// The load of a node is its dominant share: the larger of its used shares of CPU and memory. The measure is the
// standard deviation of the loads over the nodes that are ready and eligible. Every move lowers it.
//
// An allocation moves only to a node on which the scheduler could place it. The scores of that node for affinities,
// spreads and other allocations of the group must not be below those of the present node. Each allocation moves at
// most once.
//
// Plan finds the moves. Refusal checks one of them again before it is made. Both read a snapshot, write nothing and
// start no goroutine. The result of Plan depends on the snapshot and the options only.
package rebalance

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// minGain is the smallest useful effect of a move: how much it lowers the sum of the squared distances of the loads
// from their mean. A move with less effect is not worth the restart of the tasks.
const minGain = 0.001

// Options limit the moves. An empty string matches all nodes or allocations.
type Options struct {
	MaxMoves   int
	Datacenter string // of the nodes
	NodePool   string // of the nodes
	Namespace  string // of the allocations
	JobID      string // of the allocations
	// MayMove reports whether the caller may see the allocations of a namespace.
	MayMove func(namespace string) bool
	// Scheduler are the options of the scheduler of this cluster, such as the kinds of drivers.
	Scheduler scheduler.Options
}

// unseen is the reason to skip allocations of namespaces that the caller may not read.
const unseen = "in a namespace that the caller cannot read"

// notSelected is the reason to skip allocations that the options exclude.
const notSelected = "not selected"

// Plan returns the moves for a snapshot. The error is that of ctx.
func Plan(ctx context.Context, snap *state.Snapshot, o Options) (*message.Rebalance, error) {
	// The ports of the plan are drawn from a constant seed.
	o.Scheduler.Seed = new([32]byte)
	p := &planner{view: newView(snap), opts: o, hinder: newHindrances(snap),
		out: &message.Rebalance{Moves: []*message.AllocMove{}, Skipped: map[string]int{}}}
	p.load()
	p.out.Before = p.balance()
	for len(p.out.Moves) < o.MaxMoves {
		m, err := p.best(ctx)
		if err != nil {
			return nil, err
		}
		if m == nil {
			break
		}
		p.apply(m)
	}
	p.out.After = p.balance()
	return p.out, nil
}

type planner struct {
	view   *view
	opts   Options
	hinder *hindrances
	nodes  []*node // most loaded first
	sum    float64 // of the loads
	out    *message.Rebalance
}

// node is a candidate with its load.
type node struct {
	*nomad.Node
	capacity, used nomad.Used
	load           float64
	movable        []*nomad.Allocation // sorted by name and ID
	// settled means that no useful move away from the node was found. It is not tried again, because other moves
	// rarely make one possible.
	settled bool
}

// share returns the dominant share of a usage.
func (n *node) share(u nomad.Used) float64 {
	return max(part(u.CPU, n.capacity.CPU), part(u.MemoryMB, n.capacity.MemoryMB))
}

func part(used, capacity int64) float64 {
	if capacity <= 0 {
		return 0
	}
	return float64(used) / float64(capacity)
}

// plus returns the load of the node after u is added (sign 1) or removed (sign -1).
func (n *node) plus(u nomad.Used, sign int64) float64 {
	sum := n.used
	sum.Add(u, sign)
	return n.share(sum)
}

// load reads the nodes that the options select, and their allocations.
func (p *planner) load() {
	for n := range p.view.Nodes(nil) {
		if !n.Ready() || n.NodeResources == nil || p.opts.Datacenter != "" && n.Datacenter != p.opts.Datacenter ||
			p.opts.NodePool != "" && !n.IsInPool(p.opts.NodePool) {
			continue
		}
		c := &node{Node: n, capacity: capacityOf(n)}
		for a := range p.view.LiveAllocsByNode(n.ID) {
			c.used.Add(a.AllocatedResources.Flatten(), 1)
			if why := p.skip(a); why != "" {
				p.out.Skipped[why]++
				continue
			}
			c.movable = append(c.movable, a)
		}
		slices.SortFunc(c.movable, func(a, b *nomad.Allocation) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
		c.load = c.share(c.used)
		p.sum += c.load
		p.nodes = append(p.nodes, c)
	}
	p.sort()
}

// skip returns why an allocation may not move, or "".
func (p *planner) skip(a *nomad.Allocation) string {
	switch {
	case p.opts.MayMove != nil && !p.opts.MayMove(a.Namespace):
		return unseen
	case p.opts.Namespace != "" && a.Namespace != p.opts.Namespace, p.opts.JobID != "" && a.JobID != p.opts.JobID:
		return notSelected
	}
	return p.hinder.of(a)
}

// sort puts the most loaded nodes first.
func (p *planner) sort() {
	slices.SortFunc(p.nodes, func(a, b *node) int { return cmp.Or(cmp.Compare(b.load, a.load), cmp.Compare(a.ID, b.ID)) })
}

// balance returns the measure of the loads.
func (p *planner) balance() message.NodeBalance {
	out := message.NodeBalance{Nodes: len(p.nodes)}
	if len(p.nodes) == 0 {
		return out
	}
	out.Mean = p.sum / float64(len(p.nodes))
	out.Highest, out.Lowest = p.nodes[0].load, p.nodes[len(p.nodes)-1].load
	squares := 0.0
	for _, n := range p.nodes {
		squares += (n.load - out.Mean) * (n.load - out.Mean)
	}
	out.Deviation = math.Sqrt(squares / float64(len(p.nodes)))
	return out
}

// move is a move with its effect.
type move struct {
	alloc    *nomad.Allocation
	from, to *node
	moved    *nomad.Allocation // on its new node
	gain     float64
}

// gain returns how much a move lowers the sum of the squared distances of the loads from their mean.
func (p *planner) gain(from, to *node, leaves, arrives nomad.Used) float64 {
	f, t := from.plus(leaves, -1), to.plus(arrives, 1)
	sum := p.sum - from.load - to.load + f + t
	squares := from.load*from.load + to.load*to.load - f*f - t*t
	return squares - (p.sum*p.sum-sum*sum)/float64(len(p.nodes))
}

// best returns the best move away from the most loaded node that has a useful one, or nil.
func (p *planner) best(ctx context.Context) (*move, error) {
	mean := p.sum / float64(max(1, len(p.nodes)))
	for _, from := range p.nodes {
		if from.load <= mean {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if from.settled {
			continue
		}
		if m := p.target(from); m != nil {
			return m, nil
		}
		from.settled = true
	}
	return nil, nil
}

// target returns the best move away from a node, or nil. Only one allocation of a group is tried, since the others
// would have the same effect.
func (p *planner) target(from *node) *move {
	var list []attempt
	seen := map[string]bool{}
	for _, a := range from.movable {
		group := a.Namespace + "\x00" + a.JobID + "\x00" + a.TaskGroup
		if seen[group] {
			continue
		}
		seen[group] = true
		if t := p.attempt(from, a); t.gain >= minGain {
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(a, b attempt) int { return cmp.Compare(b.gain, a.gain) })
	var out *move
	for _, t := range list {
		if out != nil && out.gain >= t.gain {
			break
		}
		if m := p.feasible(from, t); m != nil && (out == nil || m.gain > out.gain) {
			out = m
		}
	}
	return out
}

// attempt is an allocation with the gain of its best move. The gain assumes that every node can run it.
type attempt struct {
	alloc *nomad.Allocation
	use   nomad.Used
	gain  float64
}

func (p *planner) attempt(from *node, a *nomad.Allocation) attempt {
	out := attempt{alloc: a, use: a.AllocatedResources.Flatten()}
	for _, to := range p.nodes {
		if to != from {
			out.gain = max(out.gain, p.gain(from, to, out.use, out.use))
		}
	}
	return out
}

// feasible returns the move of an allocation to the least loaded node that can run it, or nil.
func (p *planner) feasible(from *node, t attempt) *move {
	job := p.view.Job(nil, t.alloc.Namespace, t.alloc.JobID)
	m := scheduler.NewMover(p.view, job, t.alloc, p.opts.Scheduler)
	if m == nil {
		return nil
	}
	own := m.On(from.Node) // nil if it could not be placed there again
	for _, to := range slices.Backward(p.nodes) {
		if to == from || to.load >= from.load {
			return nil
		}
		if p.gain(from, to, t.use, t.use) < minGain {
			continue
		}
		opening := m.On(to.Node)
		if opening == nil || own != nil && opening.Worse(own) {
			continue
		}
		arrives := opening.Resources.Flatten() // other cores may have another speed
		if gain := p.gain(from, to, t.use, arrives); gain >= minGain {
			moved := *t.alloc
			moved.NodeID, moved.NodeName, moved.AllocatedResources = to.ID, to.Name, opening.Resources
			return &move{alloc: t.alloc, from: from, to: to, moved: &moved, gain: gain}
		}
	}
	return nil
}

// apply adds a move to the result and to the view.
func (p *planner) apply(m *move) {
	p.view.move(m.alloc, m.moved)
	p.sum -= m.from.load + m.to.load
	m.from.used.Add(m.alloc.AllocatedResources.Flatten(), -1)
	m.to.used.Add(m.moved.AllocatedResources.Flatten(), 1)
	m.from.load, m.to.load = m.from.share(m.from.used), m.to.share(m.to.used)
	p.sum += m.from.load + m.to.load
	m.from.movable = slices.DeleteFunc(m.from.movable, func(a *nomad.Allocation) bool { return a == m.alloc })
	p.sort()
	p.out.Moves = append(p.out.Moves, &message.AllocMove{
		AllocID: m.alloc.ID, Name: m.alloc.Name, Namespace: m.alloc.Namespace, JobID: m.alloc.JobID, TaskGroup: m.alloc.TaskGroup,
		FromID: m.from.ID, FromName: m.from.Name, ToID: m.to.ID, ToName: m.to.Name, Deviation: p.balance().Deviation,
	})
}
