package plan

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// view is the state after the commit ahead.
type view struct {
	snap     *state.Snapshot
	ahead    *overlay       // nil if no commit is running
	job      *nomad.Job     // of the plan
	withheld map[string]int // host volumes by ID, and CSI volumes by csi.Resource, that no plan may use: see Applier.Withhold
}

// overlay is the set of changes of a plan, by node. Applying it to a state that already contains it
// has no effect.
type overlay struct {
	evalID string
	nodes  map[string]*nodeChange
}

type nodeChange struct {
	gone   map[string]bool              // stopped and preempted, by ID
	ended  map[string]bool              // those of gone that use nothing any more: their client is lost
	placed map[string]*nomad.Allocation // placed and updated, by ID, with their job
}

// newOverlay returns the changes of a plan for a job.
func newOverlay(evalID string, job *nomad.Job, r *nomad.PlanResult) *overlay {
	o := &overlay{evalID: evalID, nodes: make(map[string]*nodeChange)}
	for _, list := range []map[string][]*nomad.Allocation{r.NodeUpdate, r.NodePreemptions} {
		for node, allocs := range list {
			for _, a := range allocs {
				o.node(node).gone[a.ID] = true
				o.node(node).ended[a.ID] = a.ClientTerminalStatus()
			}
		}
	}
	for node, allocs := range r.NodeAllocation {
		for _, a := range allocs {
			if a.Job == nil {
				of := *a
				of.Job, a = job, &of
			}
			o.node(node).placed[a.ID] = a
		}
	}
	return o
}

func (o *overlay) node(id string) *nodeChange {
	n := o.nodes[id]
	if n == nil {
		n = &nodeChange{gone: make(map[string]bool), ended: make(map[string]bool), placed: make(map[string]*nomad.Allocation)}
		o.nodes[id] = n
	}
	return n
}

// on returns the change of a node, or nil.
func (o *overlay) on(node string) *nodeChange {
	if o == nil {
		return nil
	}
	return o.nodes[node]
}

// live returns the allocations on the node that their client has not ended.
func (v view) live(node string) []*nomad.Allocation {
	change := v.ahead.on(node)
	var out []*nomad.Allocation
	for a := range v.snap.LiveAllocsByNode(node) {
		if !change.replaces(a.ID) {
			out = append(out, a)
		}
	}
	if change != nil {
		for _, a := range change.placed {
			out = append(out, a)
		}
	}
	return out
}

func (c *nodeChange) replaces(id string) bool {
	return c != nil && (c.ended[id] || c.placed[id] != nil)
}

// alloc returns an allocation after the commit ahead, or nil if it is terminal or does not exist.
func (v view) alloc(node, id string) *nomad.Allocation {
	change := v.ahead.on(node)
	if change != nil && change.gone[id] {
		return nil
	}
	stored := v.snap.Alloc(nil, id)
	if stored != nil && stored.TerminalStatus() {
		return nil
	}
	if change != nil && change.placed[id] != nil {
		return change.placed[id]
	}
	return stored
}

// stale reports whether another plan of the same evaluation was committed after the scheduler's
// snapshot: a worker timed out, and another one took over.
func (v view) stale(plan *nomad.Plan) bool {
	if v.ahead != nil && v.ahead.evalID == plan.EvalID {
		return true
	}
	eval := v.snap.Eval(nil, plan.EvalID)
	return eval != nil && eval.ModifyIndex > plan.SnapshotIndex
}
