package feasible

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Succeed counts an allocation whose client waits for the end of others before it starts: its predecessor, or the
// allocations that it preempts. It may use what they hold. What they hold beyond that stays in use, since their client
// has not ended them.
func (u *Usage) Succeed(by *nomad.Allocation, others ...*nomad.Allocation) {
	var rest []*nomad.AllocatedResources
	for _, o := range others {
		if a := u.allocs[o.ID]; a != nil {
			u.Remove(o.ID)
			rest = append(rest, a.AllocatedResources)
		}
	}
	u.Add(by)
	if len(rest) > 0 && by.AllocatedResources != nil {
		u.count(remainder(rest, by.AllocatedResources), 1)
	}
}

// remainder returns what a list holds beyond the resources of their successor, as the resources of one task.
func remainder(list []*nomad.AllocatedResources, by *nomad.AllocatedResources) *nomad.AllocatedResources {
	var sum nomad.Used
	for _, r := range list {
		used := r.Flatten()
		sum.Add(used, 1)
		sum.Cores = append(sum.Cores, used.Cores...)
	}
	next := by.Flatten()
	sum.Add(next, -1)
	task := &nomad.AllocatedTaskResources{}
	task.Cpu.CpuShares, task.Memory.MemoryMB = max(sum.CPU, 0), max(sum.MemoryMB, 0)
	task.Cpu.ReservedCores = slices.DeleteFunc(sum.Cores, func(c uint16) bool { return slices.Contains(next.Cores, c) })
	out := &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{"": task}}
	out.Shared.DiskMB = max(sum.DiskMB, 0)
	taken, shared := holdings(by)
	for _, r := range list {
		ports, devices := holdings(r)
		for _, p := range ports {
			if !slices.Contains(taken, p) {
				out.Shared.Ports = append(out.Shared.Ports, nomad.AllocatedPortMapping{HostIP: p.ip, Value: p.value})
			}
		}
		for _, d := range devices {
			if !slices.Contains(shared, d) {
				task.Devices = append(task.Devices,
					&nomad.AllocatedDeviceResource{Vendor: d.vendor, Type: d.kind, Name: d.name, DeviceIDs: []string{d.id}})
			}
		}
	}
	return out
}

// boundPort is a port of an address that one allocation may use at a time.
type boundPort struct {
	ip    string
	value int
}

// holdings returns the ports and the device instances of allocated resources.
func holdings(r *nomad.AllocatedResources) (list []boundPort, devices []instance) {
	if len(r.Shared.Ports) > 0 {
		for _, m := range r.Shared.Ports {
			if !m.IgnoreCollision {
				list = append(list, boundPort{m.HostIP, m.Value})
			}
		}
	} else {
		list = append(list, ofNetworks(r.Shared.Networks)...)
	}
	for _, t := range r.Tasks {
		list = append(list, ofNetworks(t.Networks)...)
		for _, d := range t.Devices {
			if d == nil {
				continue
			}
			for _, id := range d.DeviceIDs {
				devices = append(devices, instance{d.Vendor, d.Type, d.Name, id})
			}
		}
	}
	return list, devices
}

func ofNetworks(networks nomad.Networks) (out []boundPort) {
	for _, n := range networks {
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			if !p.IgnoreCollision {
				out = append(out, boundPort{n.IP, p.Value})
			}
		}
	}
	return out
}
