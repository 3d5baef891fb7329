package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// notPlaced records on a failed allocation that its replacement found no node. The blocked evaluation tries again.
func (d *draft) notPlaced(p *reconcile.Placement) {
	a := p.Previous
	if p.Reschedule == nil || a == nil || d.cluster.lookup(a.NodeID) == nil || a.ClientStatus != nomad.AllocClientStatusFailed || a.ServerTerminalStatus() {
		return
	}
	t := &nomad.RescheduleTracker{LastReschedule: nomad.LastRescheduleFailedToPlace}
	if old := a.RescheduleTracker; old != nil {
		if old.LastReschedule == t.LastReschedule {
			return
		}
		t.Events = old.Events
	}
	noted := *a
	noted.RescheduleTracker = t
	d.update(&noted)
}
