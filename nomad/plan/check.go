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

// minParallel is the minimum number of nodes that are checked in parallel.
const minParallel = 32

// verdict is the result for one node of a plan.
type verdict struct {
	node string
	refusal
	err error
}

// refusal is why the part of a plan for a node is rejected. The text is "" if it is accepted.
type refusal struct {
	why string
	// elsewhere means that the node is not the reason, but what schedulers did not know of a volume.
	elsewhere bool
}

// Reasons why the part of a plan for a node is rejected. Other reasons are the dimensions that the plan exhausts.
const (
	nodeAbsent     = "node does not exist"
	nodeNotReady   = "node is not ready for placements"
	nodeIneligible = "node is not eligible"
)

// evaluate returns the parts of the plan that fit, and the reasons why others are rejected, by node.
// RefreshIndex is not set yet.
func (v view) evaluate(plan *nomad.Plan) (*nomad.PlanResult, map[string]refusal, error) {
	reasons := map[string]refusal{}
	result := &nomad.PlanResult{
		NodeUpdate:        make(map[string][]*nomad.Allocation),
		NodeAllocation:    make(map[string][]*nomad.Allocation),
		NodePreemptions:   make(map[string][]*nomad.Allocation),
		Deployment:        plan.Deployment,
		DeploymentUpdates: v.possible(plan.DeploymentUpdates),
	}
	for _, got := range v.checkNodes(plan) {
		if got.err != nil {
			return nil, nil, fmt.Errorf("check plan on node %s: %w", got.node, got.err)
		}
		if got.why != "" {
			reasons[got.node] = got.refusal
			result.RejectedNodes = append(result.RejectedNodes, got.node)
			continue
		}
		appendMissing(result.NodeUpdate, plan.NodeUpdate, got.node)
		appendMissing(result.NodeAllocation, plan.NodeAllocation, got.node)
		appendMissing(result.NodePreemptions, plan.NodePreemptions, got.node)
	}
	if plan.AllAtOnce && len(result.RejectedNodes) > 0 {
		return &nomad.PlanResult{RejectedNodes: result.RejectedNodes}, reasons, nil
	}
	return result, reasons, nil
}

func appendMissing(to, from map[string][]*nomad.Allocation, node string) {
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
	volumes := v.csiUses(plan)
	check := func(i int) {
		got := &verdicts[i]
		got.refusal, got.err = v.reject(plan, got.node, volumes)
	}
	if len(verdicts) < minParallel {
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

// reject returns why the node cannot run what the plan places there. Stops are always possible,
// and so are in-place updates on a node that is not lost. New allocations need a ready node.
func (v view) reject(plan *nomad.Plan, nodeID string, volumes *csiUses) (refusal, error) {
	placed := plan.NodeAllocation[nodeID]
	if len(placed) == 0 {
		return refusal{}, nil
	}
	node := v.snap.Node(nil, nodeID)
	if node == nil {
		return refusal{why: nodeAbsent}, nil
	}
	known, proposed := v.proposed(plan, nodeID)
	// A terminal allocation is not new either: the plan only marks it for its follow-up.
	added := slices.DeleteFunc(slices.Clone(placed), func(a *nomad.Allocation) bool { return known[a.ID] || v.snap.Alloc(nil, a.ID) != nil })
	getsNew := len(added) > 0
	if why := unready(node, getsNew); why != "" {
		return refusal{why: why}, nil
	}
	if lost(node) && slices.ContainsFunc(placed, func(a *nomad.Allocation) bool { return known[a.ID] && runs(a) }) {
		return refusal{why: fmt.Sprintf("node is %s and contains invalid updates", node.Status)}, nil
	}
	if !getsNew { // an update in place keeps the resources; those of stopping allocations may exceed the node for a time
		return refusal{}, nil
	}
	if why := v.volumes(node, added); why.why != "" {
		return why, nil
	}
	if why := volumes.reject(node, added); why != "" {
		return refusal{why: why, elsewhere: true}, nil
	}
	fit, why, _, err := feasible.AllocsFit(node, append(proposed, placed...))
	if err != nil {
		return refusal{}, err
	}
	if fit {
		return refusal{why: v.writers(placed, proposed)}, nil
	}
	return refusal{why: cmp.Or(why, "resources exhausted")}, nil
}

// proposed returns the IDs of the allocations that use the node, and those of them that the plan neither changes nor stops.
func (v view) proposed(plan *nomad.Plan, node string) (known map[string]bool, rest []*nomad.Allocation) {
	replaced := make(map[string]bool)
	for _, list := range []map[string][]*nomad.Allocation{plan.NodeAllocation, plan.NodeUpdate, plan.NodePreemptions} {
		for _, a := range list[node] {
			replaced[a.ID] = true
		}
	}
	live := v.live(node)
	known = make(map[string]bool, len(live))
	rest = make([]*nomad.Allocation, 0, len(live)+len(plan.NodeAllocation[node]))
	for _, a := range live {
		known[a.ID] = true
		if !replaced[a.ID] {
			rest = append(rest, a)
		}
	}
	return known, rest
}

// unready returns why the node takes no new allocations, or "" if it does or gets none.
func unready(node *nomad.Node, getsNew bool) string {
	switch {
	case !getsNew || node.Ready():
		return ""
	case node.Status == nomad.NodeStatusReady && node.SchedulingEligibility == nomad.NodeSchedulingIneligible:
		return nodeIneligible
	}
	return nodeNotReady
}

// lost reports whether the servers have no contact with the node.
func lost(node *nomad.Node) bool {
	return node.Status == nomad.NodeStatusDown || node.Status == nomad.NodeStatusDisconnected
}

// runs reports whether the allocation is updated as one that its client runs. On a lost node that is
// impossible: such an allocation is unknown or terminal.
func runs(a *nomad.Allocation) bool {
	return !a.TerminalStatus() && a.ClientStatus != nomad.AllocClientStatusUnknown
}

// possible returns the updates of active deployments. The deployment watcher may have ended one
// after the scheduler's snapshot.
func (v view) possible(updates []*nomad.DeploymentStatusUpdate) []*nomad.DeploymentStatusUpdate {
	return slices.DeleteFunc(slices.Clone(updates), func(u *nomad.DeploymentStatusUpdate) bool {
		d := v.snap.Deployment(nil, u.DeploymentID)
		return d == nil || !d.Active()
	})
}
