package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad"
)

// preempts reports whether the configuration enables preemption for jobs of the type.
func (c *cluster) preempts(jobType string) bool {
	p := c.config.PreemptionConfig
	switch jobType {
	case nomad.JobTypeSystem:
		return p.SystemSchedulerEnabled
	case nomad.JobTypeSysBatch:
		return p.SysBatchSchedulerEnabled
	case nomad.JobTypeBatch:
		return p.BatchSchedulerEnabled
	case nomad.JobTypeService:
		return p.ServiceSchedulerEnabled
	}
	return false
}

// displace searches the nodes that are feasible but full. It picks the one where preempting the
// least important allocations makes room for one more of the group.
func (s *stack) displace(g *groupStack, nodes []*nomad.Node) *option {
	var best *option
	for _, n := range nodes {
		if s.verdict(g, n) != "" {
			continue
		}
		u := s.cluster.usage(n)
		if u == nil {
			continue
		}
		victims, got, ok := u.Preempt(g.ask, s.rng, s.cluster.job.Priority)
		if !ok || best != nil && !milder(victims, best.victims) {
			continue
		}
		best = &option{node: n, resources: got, victims: victims, scores: g.scorer.score(n, u, got)}
	}
	return best
}

// milder reports whether preempting a is preferable to b: a lower maximum priority, then fewer
// allocations.
func milder(a, b []*nomad.Allocation) bool {
	if x, y := highest(a), highest(b); x != y {
		return x < y
	}
	return len(a) < len(b)
}

func highest(allocs []*nomad.Allocation) int {
	top := 0
	for _, a := range allocs {
		top = max(top, a.Job.Priority)
	}
	return top
}

// preempt marks the victims as preempted by an allocation.
func (d *draft) preempt(by *nomad.Allocation, victims []*nomad.Allocation) {
	d.cluster.quota.displaced(victims)
	for _, v := range victims {
		by.PreemptedAllocations = append(by.PreemptedAllocations, v.ID)
		gone := *v
		gone.Job, gone.Metrics, gone.TaskStates = nil, nil, nil
		gone.DesiredStatus = nomad.AllocDesiredStatusEvict
		gone.PreemptedByAllocation = by.ID
		d.plan.NodePreemptions[v.NodeID] = append(d.plan.NodePreemptions[v.NodeID], &gone)
		if u := d.cluster.usages[v.NodeID]; u != nil {
			u.Remove(v.ID)
		}
		if a := d.plan.Annotations; a != nil {
			stub := v.Stub(nil)
			stub.PreemptedByAllocation = by.ID
			a.PreemptedAllocs = append(a.PreemptedAllocs, stub)
			if u := a.DesiredTGUpdates[by.TaskGroup]; u != nil {
				u.Preemptions++
			}
		}
	}
}
