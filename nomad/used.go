package nomad

import "slices"

// Used contains an amount of each countable resource of a node.
type Used struct {
	CPU      int64 // MHz
	MemoryMB int64
	// MemoryMaxMB is the sum of the memory limits. It may exceed the memory of the node.
	MemoryMaxMB int64
	DiskMB      int64
	// Cores are the reserved cores in ascending order.
	Cores []uint16
}

// Add adds o multiplied by sign. It does not change the cores.
func (u *Used) Add(o Used, sign int64) {
	u.CPU += sign * o.CPU
	u.MemoryMB += sign * o.MemoryMB
	u.MemoryMaxMB += sign * o.MemoryMaxMB
	u.DiskMB += sign * o.DiskMB
}

// max raises each amount of u to at least that of o.
func (u *Used) max(o Used) {
	u.CPU = max(u.CPU, o.CPU)
	u.MemoryMB = max(u.MemoryMB, o.MemoryMB)
	u.MemoryMaxMB = max(u.MemoryMaxMB, o.MemoryMaxMB)
	u.DiskMB = max(u.DiskMB, o.DiskMB)
}

// Flatten returns the maximum amount that an allocation uses at any time. Prestart, main and poststop tasks run one phase
// after another, so only the largest phase counts. Sidecars run during all phases.
func (r *AllocatedResources) Flatten() Used {
	if r == nil {
		return Used{}
	}
	var sidecar, prestart, main, poststop Used
	var cores []uint16
	for name, task := range r.Tasks {
		phase := &main
		if lc := r.TaskLifecycles[name]; lc != nil {
			switch {
			case lc.Sidecar:
				phase = &sidecar
			case lc.Hook == TaskLifecycleHookPrestart:
				phase = &prestart
			case lc.Hook == TaskLifecycleHookPoststop:
				phase = &poststop
			}
		}
		phase.Add(taskUse(task), 1)
		cores = append(cores, task.Cpu.ReservedCores...)
	}
	main.max(prestart)
	main.max(poststop)
	main.Add(sidecar, 1)
	main.DiskMB = r.Shared.DiskMB
	slices.Sort(cores)
	main.Cores = cores
	return main
}

func taskUse(t *AllocatedTaskResources) Used {
	u := Used{CPU: t.Cpu.CpuShares, MemoryMB: t.Memory.MemoryMB, MemoryMaxMB: t.Memory.MemoryMaxMB}
	if u.MemoryMaxMB < u.MemoryMB {
		u.MemoryMaxMB = u.MemoryMB
	}
	return u
}
