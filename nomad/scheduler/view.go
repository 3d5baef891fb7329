package scheduler

import (
	"math/rand/v2"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

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
