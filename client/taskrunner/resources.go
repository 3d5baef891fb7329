package taskrunner

import (
	"crypto/rand"
	"encoding/hex"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// volumePaths returns the host paths of all volumes of a node.
func volumePaths(n *nomad.Node) []string {
	var out []string
	for _, v := range n.HostVolumes {
		out = append(out, v.Path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// taskID returns a driver task ID that is unique per start.
func taskID(alloc, task string) string {
	var b [4]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return alloc + "/" + task + "/" + hex.EncodeToString(b[:])
}

// allocated returns the resources of a task.
func allocated(a *nomad.Allocation, task string) *nomad.AllocatedTaskResources {
	if a.AllocatedResources != nil && a.AllocatedResources.Tasks[task] != nil {
		return a.AllocatedResources.Tasks[task]
	}
	return &nomad.AllocatedTaskResources{}
}

// limits returns the limits of a task with these resources.
func limits(res *nomad.AllocatedTaskResources, mhzPerCore uint64) drivers.LinuxResources {
	limits := drivers.LinuxResources{
		MemoryBytes: res.Memory.MemoryMB * nomad.BytesInMegabyte,
		CPUShares:   res.Cpu.CpuShares,
		MHzPerCore:  mhzPerCore,
		Cores:       res.Cpu.ReservedCores,
	}
	switch {
	case res.Memory.MemoryMaxMB == nomad.MemoryNoLimit:
		limits.MemoryMaxBytes = -1
	case res.Memory.MemoryMaxMB > res.Memory.MemoryMB:
		limits.MemoryMaxBytes = res.Memory.MemoryMaxMB * nomad.BytesInMegabyte
	}
	return limits
}

// ports returns the ports of the group's network and of the task.
func ports(a *nomad.Allocation, res *nomad.AllocatedTaskResources) []drivers.Port {
	var list []drivers.Port
	if a.AllocatedResources != nil {
		for _, p := range a.AllocatedResources.Shared.Ports {
			list = append(list, drivers.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
		}
	}
	for _, n := range res.Networks {
		for _, p := range append(n.ReservedPorts[:len(n.ReservedPorts):len(n.ReservedPorts)], n.DynamicPorts...) {
			list = append(list, drivers.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: n.IP, Own: true})
		}
	}
	return list
}

// cgroupParent returns the control group above those of the node's tasks.
func cgroupParent(n *nomad.Node) string {
	if n.CgroupParent != "" {
		return n.CgroupParent
	}
	return "nomad.slice"
}
