package feasible

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// deviceHolders returns the candidates whose devices the first unmet ask needs. Of the devices that match, it takes
// the one with the lowest sum of distinct priorities.
func (s *displacement) deviceHolders() []*nomad.Allocation {
	ask := s.unmetDevice()
	if ask == nil {
		return nil
	}
	var best []*nomad.Allocation
	for _, d := range s.usage.node.NodeResources.Devices {
		if !ask.matches(d) {
			continue
		}
		if holders := s.holdersOf(ask, d); holders != nil && (best == nil || priorities(holders) < priorities(best)) {
			best = holders
		}
	}
	return best
}

// unmetDevice returns the first ask for which no device has enough free instances.
func (s *displacement) unmetDevice() *deviceAsk {
	p := s.usage.devicePicker(nil)
	for _, t := range s.ask.group.Tasks {
		for _, ask := range s.ask.devices[t.Name] {
			if p.pick(ask) == nil {
				return ask
			}
		}
	}
	return nil
}

// bound reports whether the allocation has cores, or an instance that a task needs on the NUMA node of its cores.
func (s *displacement) bound(a *nomad.Allocation) bool {
	if len(a.AllocatedResources.Flatten().Cores) > 0 {
		return true
	}
	for _, t := range s.ask.joint {
		for _, ask := range s.ask.devices[t.Name] {
			if ask.numa && slices.ContainsFunc(s.usage.node.NodeResources.Devices, func(d *nomad.NodeDeviceResource) bool {
				return ask.matches(d) && instancesOf(a, d, ask.accepted(d)) > 0
			}) {
				return true
			}
		}
	}
	return false
}

// holdersOf returns the candidates to remove so that enough instances of the device are free, or nil if that is not
// possible.
func (s *displacement) holdersOf(ask *deviceAsk, d *nomad.NodeDeviceResource) []*nomad.Allocation {
	free := 0
	holds := map[string]bool{} // instances in use
	for _, i := range d.Instances {
		if !ask.accepts(d, i) {
			continue
		}
		if s.usage.devices[instance{d.Vendor, d.Type, d.Name, i.ID}] == 0 {
			free++
			continue
		}
		holds[i.ID] = true
	}
	var out []*nomad.Allocation
	for _, a := range s.candidates {
		if free >= ask.count && len(out) > 0 {
			break
		}
		if n := instancesOf(a, d, holds); n > 0 {
			out = append(out, a)
			free += n
		}
	}
	if free < ask.count || len(out) == 0 {
		return nil
	}
	return out
}

// instancesOf returns how many of the wanted instances of the device an allocation has.
func instancesOf(a *nomad.Allocation, d *nomad.NodeDeviceResource, wanted map[string]bool) (n int) {
	for _, t := range a.AllocatedResources.Tasks {
		for _, have := range t.Devices {
			if have == nil || have.Vendor != d.Vendor || have.Type != d.Type || have.Name != d.Name {
				continue
			}
			for _, id := range have.DeviceIDs {
				if wanted[id] {
					n++
				}
			}
		}
	}
	return n
}

// priorities returns the sum of the distinct priorities of the allocations.
func priorities(allocs []*nomad.Allocation) (sum int) {
	var seen []int
	for _, a := range allocs {
		if p := a.Job.Priority; !slices.Contains(seen, p) {
			seen = append(seen, p)
			sum += p
		}
	}
	return sum
}
