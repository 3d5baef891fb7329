package feasible

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Used is an amount of each countable resource of a node.
type Used struct {
	CPU      int64 // MHz
	MemoryMB int64
	// MemoryMaxMB is the sum of the memory limits; it may pass what the node has.
	MemoryMaxMB int64
	DiskMB      int64
	// Cores are the reserved cores, ascending.
	Cores []uint16
}

func (u *Used) add(o Used, sign int64) {
	u.CPU += sign * o.CPU
	u.MemoryMB += sign * o.MemoryMB
	u.MemoryMaxMB += sign * o.MemoryMaxMB
	u.DiskMB += sign * o.DiskMB
}

// max raises each amount of u to that of o.
func (u *Used) max(o Used) {
	u.CPU = max(u.CPU, o.CPU)
	u.MemoryMB = max(u.MemoryMB, o.MemoryMB)
	u.MemoryMaxMB = max(u.MemoryMaxMB, o.MemoryMaxMB)
	u.DiskMB = max(u.DiskMB, o.DiskMB)
}

// Capacity returns what a node offers to allocations: what it has without what
// it keeps for itself.
func Capacity(node *nomad.Node) Used {
	r, kept := node.NodeResources, node.ReservedResources
	if r == nil {
		return Used{}
	}
	if kept == nil {
		kept = &nomad.NodeReservedResources{}
	}
	return Used{
		CPU:      cpuCapacity(r, kept),
		MemoryMB: r.Memory.MemoryMB - kept.Memory.MemoryMB,
		DiskMB:   r.Disk.DiskMB - kept.Disk.DiskMB,
		Cores:    coreCapacity(r, kept),
	}
}

// cpuCapacity counts a reservation once, though a client may tell it both in
// the topology and beside it.
func cpuCapacity(r *nomad.NodeResources, kept *nomad.NodeReservedResources) int64 {
	top := r.Processors.Topology
	if top == nil || len(top.Cores) == 0 && top.OverrideTotalCompute == 0 {
		return r.Cpu.CpuShares - kept.Cpu.CpuShares
	}
	total := int64(top.OverrideTotalCompute)
	var disabled int64
	for _, c := range top.Cores {
		mhz := coreMHz(top, c)
		if top.OverrideTotalCompute == 0 {
			total += mhz
		}
		if c.Disable {
			disabled += mhz
		}
	}
	return total - max(disabled, int64(top.OverrideWitholdCompute), kept.Cpu.CpuShares)
}

func coreMHz(top *nomad.Topology, c nomad.Core) int64 {
	if top.OverrideTotalCompute > 0 {
		return int64(top.OverrideTotalCompute) / int64(len(top.Cores))
	}
	for _, speed := range []nomad.MHz{c.BaseSpeed, c.MaxSpeed, c.GuessSpeed} {
		if speed > 0 {
			return int64(speed)
		}
	}
	return 0
}

func coreCapacity(r *nomad.NodeResources, kept *nomad.NodeReservedResources) []uint16 {
	var cores []uint16
	if top := r.Processors.Topology; top != nil {
		for _, c := range top.Cores {
			if !c.Disable {
				cores = append(cores, uint16(c.ID))
			}
		}
	} else {
		cores = slices.Clone(r.Cpu.ReservableCpuCores)
	}
	cores = slices.DeleteFunc(cores, func(id uint16) bool {
		return slices.Contains(kept.Cpu.ReservedCpuCores, id)
	})
	slices.Sort(cores)
	return cores
}

// Flatten returns the most that an allocation holds at once. Prestart tasks
// end before the main ones begin and poststop tasks begin after they ended, so
// these phases share; sidecars live beside all of them.
func Flatten(r *nomad.AllocatedResources) Used {
	var sidecar, prestart, main, poststop Used
	var cores []uint16
	for name, task := range r.Tasks {
		phase := &main
		if lc := r.TaskLifecycles[name]; lc != nil {
			switch {
			case lc.Sidecar:
				phase = &sidecar
			case lc.Hook == nomad.TaskLifecycleHookPrestart:
				phase = &prestart
			case lc.Hook == nomad.TaskLifecycleHookPoststop:
				phase = &poststop
			}
		}
		phase.add(taskUse(task), 1)
		cores = append(cores, task.Cpu.ReservedCores...)
	}
	main.max(prestart)
	main.max(poststop)
	main.add(sidecar, 1)
	main.DiskMB = r.Shared.DiskMB
	slices.Sort(cores)
	main.Cores = cores
	return main
}

func taskUse(t *nomad.AllocatedTaskResources) Used {
	u := Used{CPU: t.Cpu.CpuShares, MemoryMB: t.Memory.MemoryMB, MemoryMaxMB: t.Memory.MemoryMaxMB}
	if u.MemoryMaxMB < u.MemoryMB {
		u.MemoryMaxMB = u.MemoryMB
	}
	return u
}
