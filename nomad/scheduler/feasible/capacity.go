package feasible

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Used is an amount of each countable resource of a node.
type Used = nomad.Used

// Capacity returns what a node offers to allocations: its resources minus its reservation.
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

// cpuCapacity subtracts a reservation once, even if the client reports it both in the topology and
// in its reserved resources.
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
