package reconcile

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// canaries is the canary part of one group.
//
// A new version of a group with canaries first runs update.canary allocations beside the old ones. Until they are
// promoted, no old allocation is updated and nothing is added, and a lost or failed old allocation is replaced by
// one of its own version. After the promotion they are ordinary allocations, and take the place of the old ones
// with the same names.
type canaries struct {
	g  *generic
	tg *nomad.TaskGroup
	// on is set while old allocations wait for the promotion.
	on bool
	// members are the canaries of the current deployment.
	members []member
	// others are the allocations of the group that are not canaries.
	others []*nomad.Allocation
}

// newCanaries separates the canaries of the group from its other allocations. It stops those that migrate or are
// lost, and those of an older or failed deployment.
func newCanaries(g *generic, tg *nomad.TaskGroup, allocs []*nomad.Allocation) *canaries {
	c := &canaries{g: g, tg: tg}
	wanted := g.rollout.wantsCanaries(tg)
	for _, a := range allocs {
		switch {
		case !a.IsCanary(), !wanted && g.rollout.inDeployment(a) && !g.rollout.halted: // placed while the others were promoted
			c.others = append(c.others, a)
		case a.ServerTerminalStatus(), a.ClientStatus == nomad.AllocClientStatusLost:
		case !g.rollout.inDeployment(a) || g.rollout.halted || tg.Count == 0:
			if !a.TerminalStatus() {
				c.stop(a, NotNeeded)
			}
		default:
			c.classify(a)
		}
	}
	c.on = wanted && (len(c.members) > 0 || slices.ContainsFunc(c.others, c.waits) || slices.ContainsFunc(c.others, c.waitsLost))
	return c
}

// wantsCanaries reports whether the group has canaries before an update, and they are not promoted.
func (r *rollout) wantsCanaries(tg *nomad.TaskGroup) bool {
	if !r.rolls(tg) || tg.Update.Canary <= 0 || tg.Count <= 0 {
		return false
	}
	if r.current == nil {
		return true // the next deployment begins with them
	}
	s := r.current.TaskGroups[tg.Name]
	return s != nil && s.RequiresPromotion()
}

// classify adds a canary of the current deployment.
func (c *canaries) classify(a *nomad.Allocation) {
	m, ok := member{}, true
	switch class := classOf(a, c.g.req.Node(a.NodeID), c.tg, c.g.req.Now); {
	case class == lost:
		c.stop(a, NodeLost)
		return
	case class == unknown, class == disconnecting:
		m, ok = c.g.disconnect(a, c.tg, class)
	case isSet(a.DesiredTransition.Migrate):
		c.stop(a, Moved)
		return
	case a.ClientTerminalStatus():
		m, ok = c.g.classifyEnded(a, c.tg)
	default:
		m = c.g.classifyLive(a, c.tg)
	}
	if !ok {
		return // already replaced
	}
	if m.replace != nil {
		m.replace.Canary = true
	}
	c.members = append(c.members, m)
}

func (c *canaries) stop(a *nomad.Allocation, why string) {
	c.g.out.desired(c.tg.Name).Stop++
	c.g.out.stop(a, why, lostStatus(c.g.req.Node(a.NodeID)))
}

// waits reports whether an allocation is to be replaced by the new version after the promotion.
func (c *canaries) waits(a *nomad.Allocation) bool {
	switch {
	case a.ServerTerminalStatus(), a.ClientStatus == nomad.AllocClientStatusLost, a.ClientTerminalStatus() && a.NextAllocation != "":
		return false
	}
	return c.g.destroys(a, c.tg)
}

// waitsLost reports whether an old allocation was lost during the deployment and has no successor, because no node had
// room.
func (c *canaries) waitsLost(a *nomad.Allocation) bool {
	return c.g.lostDuring(a) && c.g.destroys(a, c.tg)
}

// older makes the replacement of an old allocation run the version of that allocation.
func (c *canaries) older(m *member) {
	if !c.on || m.replace == nil || m.alloc.Job == nil || !c.g.destroys(m.alloc, c.tg) {
		return
	}
	if was := m.alloc.Job.TaskGroup(c.tg.Name); was != nil {
		m.replace.Job, m.replace.Group, m.replace.Destructive = m.alloc.Job, was, false
	}
}

// desired returns how many canaries the deployment has.
func (c *canaries) desired() int {
	if !c.on {
		return 0
	}
	if d := c.g.rollout.current; d != nil {
		return d.TaskGroups[c.tg.Name].DesiredCanaries
	}
	return min(c.tg.Update.Canary, c.tg.Count)
}

// place replaces the canaries that must stop and adds the missing ones under the names of the allocations that
// they will replace. It returns how many it places.
func (c *canaries) place(updates []*nomad.Allocation, d *nomad.DesiredUpdates) int {
	keep, placed := c.g.replaceMembers(c.tg, c.members, d)
	d.Ignore += uint64(len(keep))
	missing := c.desired() - len(c.members)
	if missing <= 0 || c.g.rollout.onHold {
		return placed
	}
	for _, name := range c.names(updates)[:missing] {
		c.g.out.Place = append(c.g.out.Place, Placement{Name: name, Group: c.tg, Canary: true})
	}
	d.Canary += uint64(missing)
	return placed + missing
}

// names returns the names for new canaries: first those of the allocations to update, then free ones.
func (c *canaries) names(updates []*nomad.Allocation) []string {
	taken, free := map[string]bool{}, newNames(c.g.req.Job.ID, c.tg.Name)
	for _, m := range c.members {
		taken[m.alloc.Name] = true
		free.take(m.alloc)
	}
	var out []string
	for _, a := range updates {
		free.take(a)
		if !taken[a.Name] {
			taken[a.Name] = true
			out = append(out, a.Name)
		}
	}
	for len(out) < c.desired() {
		out = append(out, free.free())
	}
	return out
}
