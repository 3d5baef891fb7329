package feasible

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// The dimensions of devices that a node can exhaust.
const (
	DimensionNoDevices     = "devices: no devices available"     // the node has none
	DimensionDevices       = "devices: no devices match request" // none that is free matches
	DimensionSharedDevices = "device oversubscribed"             // one instance has two allocations
)

// instance identifies one device instance of a node.
type instance struct{ vendor, kind, name, id string }

// deviceAsk is the compiled request of a task for instances of one device.
type deviceAsk struct {
	vendor, kind, name string // "" matches every vendor or name
	count              int
	numa               bool         // on the NUMA node of the task's cores
	rules              []deviceRule // constraints
	likes              []deviceLike // affinities
}

// deviceLike is the compiled affinity of a device block.
type deviceLike struct {
	deviceRule
	weight float64
}

// newDeviceAsks compiles the device blocks of a task.
func newDeviceAsks(t *nomad.Task) []*deviceAsk {
	if t.Resources == nil {
		return nil
	}
	var out []*deviceAsk
	for _, d := range t.Resources.Devices {
		if d == nil {
			continue // an older state may contain one
		}
		ask := &deviceAsk{count: int(min(d.Count, math.MaxInt32)), numa: slices.Contains(numaDevices(t.Resources), d.Name)}
		switch parts := strings.SplitN(d.Name, "/", 3); len(parts) {
		case 1:
			ask.kind = parts[0]
		case 2:
			ask.vendor, ask.kind = parts[0], parts[1]
		default:
			ask.vendor, ask.kind, ask.name = parts[0], parts[1], parts[2]
		}
		for _, c := range d.Constraints {
			ask.rules = append(ask.rules, newDeviceRule(c.LTarget, c.Operand, c.RTarget))
		}
		for _, a := range d.Affinities {
			ask.likes = append(ask.likes, deviceLike{newDeviceRule(a.LTarget, a.Operand, a.RTarget), float64(a.Weight)})
		}
		out = append(out, ask)
	}
	return out
}

// matches reports whether the ask names the device.
func (ask *deviceAsk) matches(d *nomad.NodeDeviceResource) bool {
	return d != nil && ask.kind == d.Type && (ask.vendor == "" || ask.vendor == d.Vendor) && (ask.name == "" || ask.name == d.Name)
}

// accepts reports whether an instance of a device that matches meets the constraints.
func (ask *deviceAsk) accepts(d *nomad.NodeDeviceResource, i *nomad.NodeDevice) bool {
	if i == nil || !i.Healthy {
		return false
	}
	for k := range ask.rules {
		if !ask.rules[k].holds(d, i.ID) {
			return false
		}
	}
	return true
}

// accepted returns the IDs of the instances of a device that the ask accepts.
func (ask *deviceAsk) accepted(d *nomad.NodeDeviceResource) map[string]bool {
	out := map[string]bool{}
	for _, i := range d.Instances {
		if ask.accepts(d, i) {
			out[i.ID] = true
		}
	}
	return out
}

// affinity returns the sum of the matched weights for a device and some of its instances.
func (ask *deviceAsk) affinity(d *nomad.NodeDeviceResource, ids []string) (sum float64) {
	for k := range ask.likes {
		like := &ask.likes[k]
		if slices.ContainsFunc(ids, func(id string) bool { return like.holds(d, id) }) {
			sum += like.weight
		}
	}
	return sum
}

// affinityOn returns the affinity for the assigned instances of a node.
func (ask *deviceAsk) affinityOn(n *nomad.Node, got *nomad.AllocatedDeviceResource) float64 {
	for _, have := range n.NodeResources.Devices {
		if have != nil && have.Vendor == got.Vendor && have.Type == got.Type && have.Name == got.Name {
			return ask.affinity(have, got.DeviceIDs)
		}
	}
	return 0
}

// weights returns the sum of the absolute weights of the affinities.
func (ask *deviceAsk) weights() (sum float64) {
	for k := range ask.likes {
		sum += math.Abs(ask.likes[k].weight)
	}
	return sum
}

// devicePicker assigns instances to the asks of one allocation.
type devicePicker struct {
	devices []*nomad.NodeDeviceResource
	used    func(instance) bool
	taken   map[instance]bool
	within  func(*nomad.NodeDevice) bool // which instances are considered; nil means all
}

// devicePicker returns a picker for the instances that neither an allocation nor a pin has.
func (u *Usage) devicePicker(pins map[string]pin) *devicePicker {
	p := &devicePicker{
		devices: u.node.NodeResources.Devices,
		used:    func(i instance) bool { return u.devices[i] > 0 },
		taken:   map[instance]bool{},
	}
	for _, pinned := range pins {
		for _, d := range pinned.devices {
			p.take(d)
		}
	}
	return p
}

// take excludes the instances from later picks.
func (p *devicePicker) take(d *nomad.AllocatedDeviceResource) {
	for _, id := range d.DeviceIDs {
		p.taken[instance{d.Vendor, d.Type, d.Name, id}] = true
	}
}

// pick returns instances of the device with the highest affinity, the first among equals, or nil if no device has
// enough free instances.
func (p *devicePicker) pick(ask *deviceAsk) *nomad.AllocatedDeviceResource {
	var best *nomad.AllocatedDeviceResource
	top := math.Inf(-1)
	for _, d := range p.devices {
		if !ask.matches(d) {
			continue
		}
		ids := p.free(ask, d)
		if len(ids) < ask.count {
			continue
		}
		if score := ask.affinity(d, ids[:ask.count]); score > top {
			top = score
			best = &nomad.AllocatedDeviceResource{Vendor: d.Vendor, Type: d.Type, Name: d.Name, DeviceIDs: ids[:ask.count]}
		}
	}
	if best != nil {
		p.take(best)
	}
	return best
}

// free returns up to the requested number of instances that the ask accepts and nothing uses.
func (p *devicePicker) free(ask *deviceAsk, d *nomad.NodeDeviceResource) []string {
	var ids []string
	for _, i := range d.Instances {
		if len(ids) == ask.count {
			break
		}
		if ask.accepts(d, i) && (p.within == nil || p.within(i)) {
			if key := (instance{d.Vendor, d.Type, d.Name, i.ID}); !p.taken[key] && !p.used(key) {
				ids = append(ids, i.ID)
			}
		}
	}
	return ids
}

// devices adds the demand for the devices of all tasks, whether or not they are in use.
func (g *Group) devices(tg *nomad.TaskGroup) {
	var asks []*deviceAsk
	single := false
	for _, t := range tg.Tasks {
		for _, ask := range newDeviceAsks(t) {
			asks = append(asks, ask)
			single = single || slices.ContainsFunc(ask.rules, func(r deviceRule) bool { return r.ofInstance })
		}
	}
	if len(asks) == 0 {
		return
	}
	g.add(single, demand{check: CheckDevices, text: "missing devices", need: deviceNames(asks), found: healthyDevices,
		met: func(n *nomad.Node) bool {
			if n.NodeResources == nil {
				return false
			}
			p := devicePicker{devices: n.NodeResources.Devices, used: func(instance) bool { return false }, taken: map[instance]bool{}}
			return !slices.ContainsFunc(asks, func(ask *deviceAsk) bool { return p.pick(ask) == nil })
		}})
}

// healthyDevices describes the devices of a node, such as "nvidia/gpu/t4: 2 healthy".
func healthyDevices(n *nomad.Node) string {
	if n.NodeResources == nil {
		return ""
	}
	var out []string
	for _, d := range n.NodeResources.Devices {
		if d == nil {
			continue
		}
		healthy := 0
		for _, i := range d.Instances {
			if i != nil && i.Healthy {
				healthy++
			}
		}
		out = append(out, fmt.Sprintf("%s/%s/%s: %d healthy", d.Vendor, d.Type, d.Name, healthy))
	}
	return strings.Join(out, ", ")
}

// pickDevices assigns instances to the tasks that ask for devices. A task with a pin gets those of the pin.
func (u *Usage) pickDevices(ask *Ask, out *nomad.AllocatedResources, pins map[string]pin) string {
	p := u.devicePicker(pins)
	for _, t := range ask.group.Tasks {
		task := out.Tasks[t.Name]
		if task.Devices = pins[t.Name].devices; task.Devices != nil {
			continue
		}
		for _, d := range ask.devices[t.Name] {
			picked := p.pick(d)
			if picked == nil && len(p.devices) == 0 {
				return DimensionNoDevices
			}
			if picked == nil {
				return DimensionDevices
			}
			task.Devices = append(task.Devices, picked)
		}
	}
	return ""
}

// DeviceScore returns how well the assigned devices match the affinities of the ask, from -1 to 1. ok is false if
// the ask has no device affinities.
func (ask *Ask) DeviceScore(n *nomad.Node, r *nomad.AllocatedResources) (score float64, ok bool) {
	weights := 0.0
	for task, asks := range ask.devices {
		for i, d := range asks {
			if i >= len(r.Tasks[task].Devices) {
				continue
			}
			score += d.affinityOn(n, r.Tasks[task].Devices[i])
			weights += d.weights()
		}
	}
	if weights == 0 {
		return 0, false
	}
	return score / weights, true
}

// countDevices adds the device instances of r, delta times.
func (u *Usage) countDevices(r *nomad.AllocatedResources, delta int) {
	for _, t := range r.Tasks {
		for _, d := range t.Devices {
			if d == nil {
				continue
			}
			for _, id := range d.DeviceIDs {
				u.countInstance(instance{d.Vendor, d.Type, d.Name, id}, delta)
			}
		}
	}
}

func (u *Usage) countInstance(i instance, delta int) {
	if u.devices == nil {
		u.devices = map[instance]int{}
	}
	before := u.devices[i]
	after := before + delta
	switch {
	case before <= 1 && after > 1:
		u.shared++
	case before > 1 && after <= 1:
		u.shared--
	}
	if after == 0 {
		delete(u.devices, i)
		return
	}
	u.devices[i] = after
}

// deviceNames describes the devices of the asks.
func deviceNames(asks []*deviceAsk) string {
	var out []string
	for _, ask := range asks {
		out = append(out, ask.String())
	}
	return strings.Join(out, ", ")
}
