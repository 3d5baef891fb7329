package feasible

import (
	"math/rand/v2"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Ask is what one allocation of a task group needs. It is computed once.
type Ask struct {
	group *nomad.TaskGroup
	base  nomad.AllocatedResources // without cores, ports and devices
	use   Used                     // counts base
	cores bool
	// devices are the asks for devices by task.
	devices map[string][]*deviceAsk
	joint   []*nomad.Task // those that need cores and devices on one NUMA node
	picks   bool          // whether cores, ports or devices differ between allocations
}

// NewAsk returns the needs of a group. Memory limits above the reservation count only if
// oversubscription is enabled.
func NewAsk(tg *nomad.TaskGroup, cfg *nomad.SchedulerConfiguration) *Ask {
	ask := &Ask{group: tg, base: nomad.AllocatedResources{
		Tasks:          make(map[string]*nomad.AllocatedTaskResources, len(tg.Tasks)),
		TaskLifecycles: make(map[string]*nomad.TaskLifecycleConfig, len(tg.Tasks)),
	}}
	if tg.EphemeralDisk != nil {
		ask.base.Shared.DiskMB = int64(tg.EphemeralDisk.SizeMB)
	}
	ask.picks = len(tg.Networks) > 0
	for _, t := range tg.Tasks {
		r := t.Resources
		if r == nil {
			r = &nomad.Resources{}
		}
		res := &nomad.AllocatedTaskResources{}
		res.Memory = memory(r, cfg)
		if hard := t.HardMemoryMB(); hard > res.Memory.MemoryMB && res.Memory.MemoryMaxMB != nomad.MemoryNoLimit {
			res.Memory.MemoryMaxMB = max(res.Memory.MemoryMaxMB, hard) // what the task can use, also without oversubscription
		}
		if r.Cores > 0 {
			ask.cores, ask.picks = true, true
		} else {
			res.Cpu.CpuShares = int64(r.CPU)
		}
		if len(r.Networks) > 0 {
			ask.picks = true
		}
		if asks := newDeviceAsks(t); len(asks) > 0 {
			if ask.devices == nil {
				ask.devices = map[string][]*deviceAsk{}
			}
			ask.devices[t.Name], ask.picks = asks, true
			if slices.ContainsFunc(asks, func(d *deviceAsk) bool { return d.numa }) {
				ask.joint = append(ask.joint, t)
			}
		}
		ask.base.Tasks[t.Name] = res
		ask.base.TaskLifecycles[t.Name] = t.Lifecycle
	}
	ask.use = ask.base.Flatten()
	return ask
}

// memory returns the memory of a task: its own and that of its secrets directory. A limit counts only if
// oversubscription is enabled.
func memory(r *nomad.Resources, cfg *nomad.SchedulerConfiguration) nomad.AllocatedMemoryResources {
	out := nomad.AllocatedMemoryResources{MemoryMB: int64(r.MemoryMB) + int64(r.SecretsMB)}
	if !cfg.MemoryOversubscriptionEnabled {
		return out
	}
	out.MemoryMaxMB = int64(r.MemoryMaxMB)
	if r.MemoryMaxMB > 0 {
		out.MemoryMaxMB += int64(r.SecretsMB)
	}
	return out
}

// Fit returns the resources that an allocation of the ask would get in addition to the current
// usage, or the dimension that is exhausted: ports first, then devices, cores and amounts. Allocations may share the
// result: it must not be modified. It is counted only after Add.
func (u *Usage) Fit(ask *Ask, rng *rand.Rand) (*nomad.AllocatedResources, string) {
	out, use := &ask.base, ask.use
	if ask.picks {
		out = ask.fresh()
		if why := u.pickPorts(ask, out, rng); why != "" {
			return nil, why
		}
		if why := u.pickExclusive(ask, out); why != "" {
			return nil, why
		}
		if ask.cores {
			use = out.Flatten()
		}
	}
	if max := u.node.NodeMaxAllocs; max > 0 && len(u.allocs) >= max {
		return nil, DimensionMaxAllocs
	}
	if why := u.over(use); why != "" {
		return nil, why
	}
	return out, ""
}

// pickExclusive assigns the devices and cores of all tasks.
func (u *Usage) pickExclusive(ask *Ask, out *nomad.AllocatedResources) string {
	if len(ask.joint) > 0 {
		return u.pickNUMA(ask, out)
	}
	return u.pickTasks(ask, out, nil)
}

// fresh returns a copy of the base, to which cores, ports and devices can be added.
func (ask *Ask) fresh() *nomad.AllocatedResources {
	out := ask.base
	out.Tasks = make(map[string]*nomad.AllocatedTaskResources, len(ask.base.Tasks))
	for name, t := range ask.base.Tasks {
		clone := *t
		out.Tasks[name] = &clone
	}
	return &out
}

func (u *Usage) pickPorts(ask *Ask, out *nomad.AllocatedResources, rng *rand.Rand) string {
	k := picker{node: u.node, ports: u.ports, rng: rng}
	for _, n := range ask.group.Networks {
		offer, mapped, why := k.network(n)
		if why != "" {
			return why
		}
		if len(k.ports.addresses) > 0 {
			offer.IP = k.ports.addresses[0].ip // its ports may have others
		}
		out.Shared.Networks = append(out.Shared.Networks, offer)
		out.Shared.Ports = append(out.Shared.Ports, mapped...)
	}
	for _, t := range ask.group.Tasks {
		if t.Resources == nil {
			continue
		}
		for _, n := range t.Resources.Networks {
			if !k.reachable() {
				return "network: no networks available"
			}
			offer, _, why := k.network(n)
			if why != "" {
				return why
			}
			task := out.Tasks[t.Name]
			task.Networks = append(task.Networks, offer)
		}
	}
	return ""
}

// pickCores assigns the lowest free cores, and their CPU, to each task that asks for cores. A task with a pin gets the
// cores of the pin.
func (u *Usage) pickCores(ask *Ask, out *nomad.AllocatedResources, pins map[string]pin) string {
	free := u.freeCores(pins)
	for _, t := range ask.group.Tasks {
		r := t.Resources
		if r == nil || r.Cores <= 0 {
			continue
		}
		picked := pins[t.Name].cores
		if picked == nil {
			picked = u.choose(free, r)
		}
		if picked == nil {
			return DimensionCores
		}
		free = slices.DeleteFunc(free, func(id uint16) bool { return slices.Contains(picked, id) })
		task := out.Tasks[t.Name]
		task.Cpu.ReservedCores = picked
		task.Cpu.CpuShares = u.ofCores(picked)
	}
	return ""
}

// freeCores returns the cores that neither an allocation nor a pin has.
func (u *Usage) freeCores(pins map[string]pin) []uint16 {
	free := slices.DeleteFunc(slices.Clone(u.capacity.Cores), func(id uint16) bool { return u.cores[id] > 0 })
	for _, p := range pins {
		free = slices.DeleteFunc(free, func(id uint16) bool { return slices.Contains(p.cores, id) })
	}
	return free
}

// choose returns the requested number of cores, or nil if there are too few. With NUMA affinity all
// of them are on one memory node.
func (u *Usage) choose(free []uint16, r *nomad.Resources) []uint16 {
	if len(free) < r.Cores {
		return nil
	}
	if !r.NUMA.Binds() {
		return slices.Clone(free[:r.Cores])
	}
	byNode := map[nomad.NUMANodeID][]uint16{}
	for _, id := range free {
		node := u.numaNode(id)
		byNode[node] = append(byNode[node], id)
		if len(byNode[node]) == r.Cores {
			return byNode[node]
		}
	}
	if r.NUMA.Affinity == nomad.RequireNUMA {
		return nil
	}
	return slices.Clone(free[:r.Cores])
}

func (u *Usage) numaNode(id uint16) nomad.NUMANodeID {
	if core := u.core(id); core != nil {
		return core.NodeID
	}
	return 0
}

func (u *Usage) core(id uint16) *nomad.Core {
	top := u.node.NodeResources.Processors.Topology
	if top == nil {
		return nil
	}
	for i := range top.Cores {
		if uint16(top.Cores[i].ID) == id {
			return &top.Cores[i]
		}
	}
	return nil
}

// ofCores returns the MHz of the cores. Without a topology, each core counts for its share of the
// node.
func (u *Usage) ofCores(cores []uint16) int64 {
	r := u.node.NodeResources
	var sum int64
	for _, id := range cores {
		if core := u.core(id); core != nil {
			sum += coreMHz(r.Processors.Topology, *core)
		} else if n := max(int(r.Cpu.TotalCpuCores), len(u.capacity.Cores)); n > 0 {
			sum += r.Cpu.CpuShares / int64(n)
		}
	}
	return sum
}
