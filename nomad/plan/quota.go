package plan

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/quota"
)

// allowance is the limit and the usage of a quota.
type allowance struct {
	view     view
	quota    string
	limits   *quota.Resources
	reserved quota.Amount
}

// keepQuota removes nodes from the result whose placements exceed the quota of the job's namespace.
// What the plan frees is subtracted first. Schedulers check the quota as well, but do not see the
// plans of one another.
func (c *candidate) keepQuota() {
	if c.job == nil || len(c.result.NodeAllocation) == 0 {
		return
	}
	spec := c.view.snap.QuotaOf(nil, c.job.Namespace)
	limits := spec.Resources(c.job.Region)
	if limits == nil {
		return
	}
	a := &allowance{view: c.view, quota: spec.Name, limits: limits, reserved: c.view.reserved(spec.Name)}
	for node := range union(c.result.NodeUpdate, c.result.NodePreemptions) {
		if len(c.result.NodeAllocation[node]) == 0 {
			a.reserved.Add(a.grown(c.result, node), 1)
		}
	}
	// A node that did not fit at first may fit after other nodes have freed quota.
	remaining := slices.Sorted(maps.Keys(c.result.NodeAllocation))
	for range 2 {
		remaining = slices.DeleteFunc(remaining, func(node string) bool { return a.take(c.result, node) })
	}
	c.leaveOut(remaining)
}

// leaveOut removes nodes from the result, and everything if the plan is all-at-once.
func (c *candidate) leaveOut(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	c.overQuota = nodes
	if c.plan.AllAtOnce {
		c.result = &nomad.PlanResult{RejectedNodes: c.result.RejectedNodes}
		return
	}
	for _, node := range nodes {
		delete(c.result.NodeUpdate, node)
		delete(c.result.NodeAllocation, node)
		delete(c.result.NodePreemptions, node)
	}
}

func union(a, b map[string][]*nomad.Allocation) map[string]bool {
	out := make(map[string]bool, len(a)+len(b))
	for node := range a {
		out[node] = true
	}
	for node := range b {
		out[node] = true
	}
	return out
}

// take adds the growth of a node's usage if it fits.
func (a *allowance) take(r *nomad.PlanResult, node string) bool {
	grown := a.grown(r, node)
	if len(a.limits.Exceeded(a.reserved, grown)) > 0 {
		return false
	}
	a.reserved.Add(grown, 1)
	return true
}

// grown returns how much the plan adds to the quota's usage on a node.
func (a *allowance) grown(r *nomad.PlanResult, node string) quota.Amount {
	var out quota.Amount
	for _, list := range [][]*nomad.Allocation{r.NodeUpdate[node], r.NodePreemptions[node]} {
		for _, gone := range list {
			if now := a.view.alloc(node, gone.ID); a.view.shares(now, a.quota) {
				out.Add(quota.Of(now), -1)
			}
		}
	}
	for _, placed := range r.NodeAllocation[node] {
		now := a.view.alloc(node, placed.ID)
		if now == nil && a.view.snap.Alloc(nil, placed.ID) != nil {
			continue // terminal: the plan only marks it
		}
		out.Add(quota.Of(placed), 1)
		out.Add(quota.Of(now), -1)
	}
	return out
}

// shares reports whether an allocation belongs to a namespace with the quota.
func (v view) shares(a *nomad.Allocation, quota string) bool {
	if a == nil {
		return false
	}
	spec := v.snap.QuotaOf(nil, a.Namespace)
	return spec != nil && spec.Name == quota
}

// reserved is the usage of a quota after the commit ahead.
func (v view) reserved(name string) quota.Amount {
	out := v.snap.QuotaUsed(nil, name)
	if v.ahead == nil {
		return out
	}
	for node, change := range v.ahead.nodes {
		for id := range change.gone {
			v.moved(&out, name, node, id)
		}
		for id := range change.placed {
			v.moved(&out, name, node, id)
		}
	}
	return out
}

// moved replaces the current usage of an allocation with its usage after the commit ahead.
func (v view) moved(sum *quota.Amount, name, node, id string) {
	if now := v.snap.Alloc(nil, id); v.shares(now, name) {
		sum.Add(quota.Of(now), -1)
	}
	if next := v.alloc(node, id); v.shares(next, name) {
		sum.Add(quota.Of(next), 1)
	}
}
