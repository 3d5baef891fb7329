package reconcile

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// unreplaced returns the lost allocations whose replacement found no node, up to the count. While canaries wait or the
// deployment is on hold, fill places nothing, so that they are retried by name. An old allocation is replaced by its own
// version while canaries wait.
func (g *generic) unreplaced(tg *nomad.TaskGroup, c *canaries, members []member) []member {
	missing := tg.Count - len(members)
	if missing <= 0 || g.blocked || g.batch || !c.on && !g.rollout.onHold {
		return nil
	}
	taken, newest := map[string]bool{}, uint64(0)
	for _, m := range members {
		taken[m.alloc.Name] = true
	}
	for _, a := range c.others {
		newest = max(newest, versionOf(a))
	}
	var out []member
	for _, a := range g.lostLately(c, newest) {
		if taken[a.Name] || len(out) == missing {
			continue
		}
		taken[a.Name] = true
		m := member{alloc: a, replace: &Placement{Name: a.Name, Group: tg, Previous: a}}
		c.older(&m)
		out = append(out, m)
	}
	return out
}

// lostLately returns the lost allocations without a successor, the latest first: those of the newest version before the
// canaries, and those that were lost during the deployment.
func (g *generic) lostLately(c *canaries, newest uint64) []*nomad.Allocation {
	out := slices.DeleteFunc(slices.Clone(c.others), func(a *nomad.Allocation) bool {
		return !g.lostDuring(a) && !(g.awaitsSuccessor(a) && versionOf(a) == newest)
	})
	slices.SortFunc(out, func(a, b *nomad.Allocation) int {
		return cmp.Or(cmp.Compare(b.CreateIndex, a.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// lostDuring reports whether an allocation was lost during the current deployment and has no successor.
func (g *generic) lostDuring(a *nomad.Allocation) bool {
	d := g.rollout.current
	return d != nil && a.ModifyIndex >= d.CreateIndex && g.awaitsSuccessor(a)
}

// awaitsSuccessor reports whether the servers ended an allocation that they replace, and it has no successor: its node was
// lost or drained, it was preempted, or its client returned with one that failed or is outdated. This depends only on
// what the servers wrote. The client of a lost allocation may return, and report that the allocation is complete.
func (g *generic) awaitsSuccessor(a *nomad.Allocation) bool {
	switch {
	case a.NextAllocation != "" || a.Job == nil:
		return false
	case !a.ServerTerminalStatus():
		return a.ClientStatus == nomad.AllocClientStatusLost
	case a.DesiredStatus == nomad.AllocDesiredStatusEvict:
		return true
	}
	switch a.DesiredDescription {
	case NodeLost, Failed, Ended, Replaced:
		return true
	case Moved:
		return !g.ended(a)
	}
	return false
}
