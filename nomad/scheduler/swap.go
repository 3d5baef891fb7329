package scheduler

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// finder searches a node for a placement. It returns nil if none fits.
type finder func(p *reconcile.Placement) (*option, *nomad.AllocMetric)

// swap stops the allocations whose updates wait for one another: two groups that exchange their static ports, for
// example. The update of an allocation usually stops it only when its successor has a node. Here each successor gets one
// only when the others have ended. They are placed by the blocked evaluation, as the clients end the old allocations.
//
// The waiting updates found no node. An allocation is stopped only if all successors fit together once all of them have
// ended. Updates that fit when the other allocations of the plan have ended just wait: nothing else is stopped for them.
func (b *base) swap(d *draft, waiting []*reconcile.Placement, find finder) {
	for manyGroups(waiting) {
		fitting := b.together(d, waiting, find)
		if len(fitting) == len(waiting) {
			for _, p := range waiting {
				d.stop(p.Previous, p.StopPrevious, "")
			}
			return
		}
		waiting = fitting
	}
}

// manyGroups reports whether the placements are of more than one group. The allocations of one group demand the same.
func manyGroups(list []*reconcile.Placement) bool {
	return slices.ContainsFunc(list, func(p *reconcile.Placement) bool { return p.Group.Name != list[0].Group.Name })
}

// waits reports whether a placement without a node keeps its predecessor running only to replace it by a new version.
func waits(p *reconcile.Placement) bool {
	return p.Destructive && p.StopPrevious != "" && p.Previous != nil && !p.Previous.ClientTerminalStatus()
}

// together returns those of the waiting placements that fit if the allocations which they replace have ended. It leaves
// the draft as it was.
func (b *base) together(d *draft, waiting []*reconcile.Placement, find finder) (fitting []*reconcile.Placement) {
	c := d.cluster
	for _, p := range waiting {
		d.stop(p.Previous, p.StopPrevious, "")
		c.vacate(p.Previous)
		c.sites.writes(c, p.Previous, -1)
	}
	var placed []*nomad.Allocation
	for _, p := range waiting {
		c.sites.writes(c, p.Previous, 1) // a search does not count the predecessor
		o, m := find(p)
		c.sites.writes(c, p.Previous, -1)
		if o == nil || len(o.victims) > 0 || c.quota.exceeded(o, m) {
			continue
		}
		a := b.build(p, o, m, nil)
		c.hold(a)
		c.sites.writes(c, a, 1)
		c.csi.places(c, a)
		placed, fitting = append(placed, a), append(fitting, p)
	}
	for _, a := range placed {
		c.csi.withdraws(c, a)
		c.sites.writes(c, a, -1)
		c.release(a)
		c.vacate(a)
	}
	for _, p := range slices.Backward(waiting) {
		c.sites.writes(c, p.Previous, 1)
		c.occupy(p.Previous)
		d.unstop(p.Previous)
	}
	return fitting
}
