package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
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

// displace searches the nodes that are feasible but full, where preempting allocations makes room for one more of
// the group. It scores all of them: a preemption costs more than a search.
func (s *stack) displace(g *groupStack, nodes []*nomad.Node, avoid map[string]bool, m *nomad.AllocMetric) *option {
	var options ranking
	for _, n := range nodes {
		v := s.view(g, n)
		if s.verdict(g, v) != "" {
			continue
		}
		if v.load(s.cluster) != "" {
			continue
		}
		victims, got, ok := v.usage.Preempt(g.ask, s.rng, s.cluster.preemption())
		if !ok {
			continue
		}
		o := option{node: n, resources: got, victims: victims}
		fit, devices := g.scorer.resources(v, got, victims)
		g.scorer.score(v, &o, fit, devices)
		o.scores.normalize(g.scorer.spreads.score(v.spread))
		if avoid[n.ID] {
			o.scores.penalize()
		}
		options.add(&o)
	}
	return options.best(m)
}

// preemption returns what the search for victims needs about the job and the plan.
func (c *cluster) preemption() feasible.Preemption {
	return feasible.Preemption{Namespace: c.job.Namespace, Job: c.job.ID, Priority: c.job.Priority,
		Victims: func(namespace, job, group string) (n int) {
			for _, list := range c.plan.NodePreemptions {
				for _, a := range list {
					if a.Namespace == namespace && a.JobID == job && a.TaskGroup == group {
						n++
					}
				}
			}
			return n
		}}
}
