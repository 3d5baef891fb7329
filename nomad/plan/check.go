package plan

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// spread is the minimum number of nodes that are checked in parallel.
const spread = 32

// verdict is the result for one node of a plan.
type verdict struct {
	node string
	ok   bool
	err  error
}

// evaluate returns the parts of the plan that fit. RefreshIndex is not set yet.
func (v view) evaluate(plan *nomad.Plan) (*nomad.PlanResult, error) {
	result := &nomad.PlanResult{
		NodeUpdate:        make(map[string][]*nomad.Allocation),
		NodeAllocation:    make(map[string][]*nomad.Allocation),
		NodePreemptions:   make(map[string][]*nomad.Allocation),
		Deployment:        plan.Deployment,
		DeploymentUpdates: v.possible(plan.DeploymentUpdates),
	}
	for _, got := range v.checkNodes(plan) {
		if got.err != nil {
			return nil, fmt.Errorf("check plan on node %s: %w", got.node, got.err)
		}
		if !got.ok {
			result.RejectedNodes = append(result.RejectedNodes, got.node)
			continue
		}
		carry(result.NodeUpdate, plan.NodeUpdate, got.node)
		carry(result.NodeAllocation, plan.NodeAllocation, got.node)
		carry(result.NodePreemptions, plan.NodePreemptions, got.node)
	}
	if plan.AllAtOnce && len(result.RejectedNodes) > 0 {
		return &nomad.PlanResult{RejectedNodes: result.RejectedNodes}, nil
	}
	return result, nil
}

func carry(to, from map[string][]*nomad.Allocation, node string) {
	if allocs := from[node]; len(allocs) > 0 {
		to[node] = allocs
	}
}

// checkNodes checks every node of the plan, ordered by ID.
func (v view) checkNodes(plan *nomad.Plan) []verdict {
	verdicts := make([]verdict, 0, len(plan.NodeAllocation)+len(plan.NodeUpdate))
	seen := make(map[string]bool, cap(verdicts))
	for _, list := range []map[string][]*nomad.Allocation{plan.NodeAllocation, plan.NodeUpdate, plan.NodePreemptions} {
		for node := range list {
			if !seen[node] {
				seen[node] = true
				verdicts = append(verdicts, verdict{node: node})
			}
		}
	}
	slices.SortFunc(verdicts, func(x, y verdict) int { return cmp.Compare(x.node, y.node) })
	check := func(i int) {
		got := &verdicts[i]
		got.ok, got.err = v.fits(plan, got.node)
	}
	if len(verdicts) < spread {
		for i := range verdicts {
			check(i)
		}
		return verdicts
	}
	inParallel(len(verdicts), check)
	return verdicts
}

// inParallel calls fn for 0 to n-1 on all cores.
func inParallel(n int, fn func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				fn(int(i))
			}
		})
	}
	wg.Wait()
}

// fits reports whether the node can run what the plan places there. Stops are always possible, and
// so are in-place updates, whatever the node's status. New allocations need a ready node.
func (v view) fits(plan *nomad.Plan, nodeID string) (bool, error) {
	placed := plan.NodeAllocation[nodeID]
	if len(placed) == 0 {
		return true, nil
	}
	node := v.snap.Node(nil, nodeID)
	if node == nil {
		return false, nil
	}
	replaced := make(map[string]bool)
	for _, list := range [][]*nomad.Allocation{placed, plan.NodeUpdate[nodeID], plan.NodePreemptions[nodeID]} {
		for _, a := range list {
			replaced[a.ID] = true
		}
	}
	live := v.live(nodeID)
	known := make(map[string]bool, len(live))
	proposed := make([]*nomad.Allocation, 0, len(live)+len(placed))
	for _, a := range live {
		known[a.ID] = true
		if !replaced[a.ID] {
			proposed = append(proposed, a)
		}
	}
	// A terminal allocation is not new either: the plan only marks it for its follow-up.
	isNew := func(a *nomad.Allocation) bool { return !known[a.ID] && v.snap.Alloc(nil, a.ID) == nil }
	if slices.ContainsFunc(placed, isNew) && !node.Ready() {
		return false, nil
	}
	fit, _, _, err := feasible.AllocsFit(node, append(proposed, placed...))
	return fit, err
}

// possible returns the updates of active deployments. The deployment watcher may have ended one
// after the scheduler's snapshot.
func (v view) possible(updates []*nomad.DeploymentStatusUpdate) []*nomad.DeploymentStatusUpdate {
	return slices.DeleteFunc(slices.Clone(updates), func(u *nomad.DeploymentStatusUpdate) bool {
		d := v.snap.Deployment(nil, u.DeploymentID)
		return d == nil || !d.Active()
	})
}
