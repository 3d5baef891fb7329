package jobrules

import "github.com/open-nomad/open-nomad/nomad"

// validateScaling checks the scaling block of a group. Its policy is for the autoscaler only.
func validateScaling(tg *nomad.TaskGroup, f *faults, j *nomad.Job) {
	p := tg.Scaling
	if p == nil {
		return
	}
	if j.Type == nomad.JobTypeSystem {
		f.add("scaling blocks are not allowed in system jobs, which run on every feasible node: remove it")
	}
	if p.Type != nomad.ScalingPolicyTypeHorizontal {
		f.add("the type of the scaling block is %q: it must be %s", p.Type, nomad.ScalingPolicyTypeHorizontal)
	}
	count := int64(tg.Count)
	switch {
	case p.Min < 0:
		f.add("min of scaling is %d: it must be 0 or more", p.Min)
	case p.Max < p.Min:
		f.add("max of scaling is %d, less than its min of %d", p.Max, p.Min)
	case p.Max > nomad.JobDefaultMaxCount:
		f.add("max of scaling is %d: the limit is %d", p.Max, nomad.JobDefaultMaxCount)
	case count < p.Min:
		f.add("count is %d, less than the min of scaling, which is %d", count, p.Min)
	case count > p.Max:
		f.add("count is %d, more than the max of scaling, which is %d", count, p.Max)
	}
}

// validateTaskScaling checks the scaling blocks of a task: at most one of each type. The servers store them without effect.
func validateTaskScaling(t *nomad.Task, f *faults) {
	seen := map[string]bool{}
	for _, p := range t.ScalingPolicies {
		if p.Type != nomad.ScalingPolicyTypeVerticalCPU && p.Type != nomad.ScalingPolicyTypeVerticalMem {
			f.add("the type of a scaling block of a task is %q: it must be %s or %s", p.Type, nomad.ScalingPolicyTypeVerticalCPU,
				nomad.ScalingPolicyTypeVerticalMem)
		}
		if seen[p.Type] {
			f.add("more than one scaling block has the type %s: keep one", p.Type)
		}
		seen[p.Type] = true
		switch {
		case p.Min < 0:
			f.add("min of scaling is %d: it must be 0 or more", p.Min)
		case p.Max < p.Min:
			f.add("max of scaling is %d, less than its min of %d", p.Max, p.Min)
		}
	}
}
