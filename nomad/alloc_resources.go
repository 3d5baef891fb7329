package nomad

// Public returns the allocation for readers other than its node, without signed tokens. It also fills in
// the legacy resource fields (Resources, SharedResources, TaskResources), which HTTP API clients dereference.
// These are derived from AllocatedResources if it is set.
func (a *Allocation) Public() *Allocation {
	if a == nil {
		return nil
	}
	out := *a
	out.SignedIdentities = nil
	if a.AllocatedResources != nil {
		out.TaskResources = a.AllocatedResources.ByTask()
		shared := &a.AllocatedResources.Shared
		out.SharedResources = &Resources{DiskMB: int(shared.DiskMB), Networks: shared.Networks}
		out.Resources = nil
	} else {
		out.AllocatedResources = &AllocatedResources{}
	}
	if out.SharedResources == nil {
		out.SharedResources = &Resources{}
	}
	if out.Resources == nil {
		out.Resources = sum(out.TaskResources, out.SharedResources)
	}
	return &out
}

// ByTask returns the resources of each task in the legacy form.
func (r *AllocatedResources) ByTask() map[string]*Resources {
	out := make(map[string]*Resources, len(r.Tasks))
	for name, t := range r.Tasks {
		out[name] = &Resources{
			CPU:         int(t.Cpu.CpuShares),
			Cores:       len(t.Cpu.ReservedCores),
			MemoryMB:    int(t.Memory.MemoryMB),
			MemoryMaxMB: int(t.Memory.MemoryMaxMB),
			Networks:    t.Networks,
		}
	}
	return out
}

// sum returns the sum of the task resources and the shared resources. A task without a memory limit
// counts with its reservation.
func sum(tasks map[string]*Resources, shared *Resources) *Resources {
	out := &Resources{DiskMB: shared.DiskMB, Networks: shared.Networks}
	for _, t := range tasks {
		out.CPU += t.CPU
		out.Cores += t.Cores
		out.MemoryMB += t.MemoryMB
		out.DiskMB += t.DiskMB
		limit := t.MemoryMaxMB
		if limit <= 0 {
			limit = t.MemoryMB
		}
		out.MemoryMaxMB += limit
	}
	return out
}
