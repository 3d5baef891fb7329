package feasible

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// DimensionNUMA is that of a node on which no NUMA node has the free cores of a task together with the devices that
// its numa block names.
const DimensionNUMA = "numa: no NUMA node has the cores and devices"

// maxPins is the maximum number of NUMA nodes that one Fit tries for all tasks together. Beyond it, the affinity
// prefer is dropped, and require is not met.
const maxPins = 64

// numaDevices returns the names of the device blocks that must be on the NUMA node of the task's cores. It is empty
// if the task reserves no cores or has no affinity.
func numaDevices(r *nomad.Resources) []string {
	if r == nil || r.Cores <= 0 || !r.NUMA.Binds() {
		return nil
	}
	return r.NUMA.Devices
}

// pin is what a task gets on one NUMA node.
type pin struct {
	devices  []*nomad.AllocatedDeviceResource // by the index of the ask
	cores    []uint16
	affinity float64 // of the devices
}

// joint chooses the cores and devices of one allocation together.
type joint struct {
	usage *Usage
	ask   *Ask
	out   *nomad.AllocatedResources
	nodes []nomad.NUMANodeID
	pins  map[string]pin // of the tasks that are on one NUMA node
	tries int
}

// pickNUMA assigns the devices and cores of all tasks. Tasks whose numa block names devices get them on one NUMA
// node, in the order of the affinities of the devices, then of the numbers of the nodes.
func (u *Usage) pickNUMA(ask *Ask, out *nomad.AllocatedResources) string {
	j := joint{usage: u, ask: ask, out: out, nodes: u.busNodes(), pins: map[string]pin{}}
	if j.place(0) {
		return ""
	}
	if why := u.pickTasks(ask, out, nil); why != "" {
		return why // it does not fit without its numa blocks either
	}
	return DimensionNUMA
}

// place assigns the devices and cores of the tasks from index i of the ask's joint tasks on, and then those of all
// other tasks. It reports whether they fit.
func (j *joint) place(i int) bool {
	if i == len(j.ask.joint) {
		return j.usage.pickTasks(j.ask, j.out, j.pins) == ""
	}
	t := j.ask.joint[i]
	for _, p := range j.options(t) {
		if j.tries++; j.tries > maxPins {
			break
		}
		j.pins[t.Name] = p
		if j.place(i + 1) {
			return true
		}
		delete(j.pins, t.Name)
	}
	return t.Resources.NUMA.Affinity != nomad.RequireNUMA && j.place(i+1)
}

// options returns what the task can get on each NUMA node, the best first.
func (j *joint) options(t *nomad.Task) (out []pin) {
	for _, node := range j.nodes {
		if p, ok := j.option(t, node); ok {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b pin) int { return cmp.Compare(b.affinity, a.affinity) })
	return out
}

// option returns what the task can get on the NUMA node. Devices that its numa block does not name are from any.
func (j *joint) option(t *nomad.Task, node nomad.NUMANodeID) (p pin, ok bool) {
	free := slices.DeleteFunc(j.usage.freeCores(j.pins), func(id uint16) bool { return j.usage.numaNode(id) != node })
	if len(free) < t.Resources.Cores {
		return pin{}, false
	}
	asks := j.ask.devices[t.Name]
	p = pin{cores: free[:t.Resources.Cores], devices: make([]*nomad.AllocatedDeviceResource, len(asks))}
	k := j.usage.devicePicker(j.pins)
	for _, named := range []bool{true, false} { // others must not take what a named one needs
		k.within = nil
		if named {
			k.within = func(i *nomad.NodeDevice) bool { return j.usage.onNode(i, node) }
		}
		for i, d := range asks {
			if d.numa != named {
				continue
			}
			if p.devices[i] = k.pick(d); p.devices[i] == nil {
				return pin{}, false
			}
			p.affinity += d.affinityOn(j.usage.node, p.devices[i])
		}
	}
	return p, true
}

// pickTasks assigns devices and cores: to the tasks with a pin those of the pin, to the others any that are free.
func (u *Usage) pickTasks(ask *Ask, out *nomad.AllocatedResources, pins map[string]pin) string {
	if why := u.pickDevices(ask, out, pins); why != "" {
		return why
	}
	if ask.cores {
		return u.pickCores(ask, out, pins)
	}
	return ""
}

// busNodes returns the NUMA nodes that have buses, in ascending order.
func (u *Usage) busNodes() []nomad.NUMANodeID {
	top := u.node.NodeResources.Processors.Topology
	if top == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(maps.Values(top.BusAssociativity)))
}

// onNode reports whether the device instance is on the NUMA node. An instance without a known bus is on none.
func (u *Usage) onNode(i *nomad.NodeDevice, node nomad.NUMANodeID) bool {
	top := u.node.NodeResources.Processors.Topology
	if top == nil || i.Locality == nil {
		return false
	}
	of, known := top.BusAssociativity[pciAddress(i.Locality.PciBusID)]
	return known && of == node
}

// pciAddress returns the address of a PCI device as Linux writes it. Plugins also send it in upper case, with a domain
// of eight digits or without a domain.
func pciAddress(text string) string {
	parts := strings.Split(strings.ToLower(text), ":")
	if len(parts) == 2 {
		parts = []string{"0000", parts[0], parts[1]}
	}
	if len(parts) != 3 {
		return ""
	}
	domain := strings.TrimLeft(parts[0], "0")
	for len(domain) < 4 {
		domain = "0" + domain
	}
	return domain + ":" + parts[1] + ":" + parts[2]
}
