package reconcile

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// trial is the canary part of one group of a system job.
//
// A node runs one allocation of a group, so that a canary takes the place of the old allocation of its node.
// update.canary is the percentage of the outdated nodes that are updated first, at most max_parallel. Until these
// canaries are promoted, no other node is updated. Nodes without an earlier allocation get the current version.
type trial struct {
	// on is set while outdated nodes wait for the promotion.
	on bool
	// desired is how many canaries the deployment has. missing is how many of them do not run.
	desired, missing int
}

// newTrial returns the state of the canaries of the group.
func (s *perNode) newTrial(g *spots) *trial {
	c, u := &trial{}, g.tg.Update
	if !s.rollout.rolls(g.tg) {
		return c
	}
	if d := s.rollout.current; d != nil {
		if state := d.TaskGroups[g.tg.Name]; state != nil && state.RequiresPromotion() {
			c.on, c.desired = true, state.DesiredCanaries
		}
	} else if u.Canary > 0 && s.req.Job.Version > 0 && slices.ContainsFunc(g.outdated, promoted) {
		c.on, c.desired = true, min((u.Canary*len(g.outdated)+99)/100, u.MaxParallel, len(g.outdated))
	}
	if !c.on || s.rollout.halted {
		return c
	}
	c.missing = c.desired
	for _, a := range g.live {
		if a.IsCanary() && s.rollout.inDeployment(a) {
			c.missing--
		}
	}
	c.missing = max(c.missing, 0)
	return c
}

// promoted reports whether the allocation is not an unpromoted canary. If only such canaries of an earlier deployment
// are outdated, the version is a revert, and needs no canaries of its own.
func promoted(a *nomad.Allocation) bool { return !a.IsCanary() }

// fill places an allocation on a free spot. While canaries run, the successor of a canary is a canary, and the
// successor of an old allocation runs the version of that allocation.
func (s *perNode) fill(g *spots, c *trial, v vacancy) Placement {
	p := Placement{Name: nomad.AllocName(s.req.Job.Name, g.tg.Name, uint(v.index)), Group: g.tg, Node: v.node}
	switch {
	case !c.on || v.last == nil || v.last.Job == nil:
	case c.missing > 0 && v.last.IsCanary() && s.rollout.inDeployment(v.last),
		c.missing > len(g.outdated) && s.outdated(g, v.last) && !s.rollout.onHold: // too few nodes to update
		p.Canary = true
		c.missing--
		g.desired.Canary++
		return p
	case s.outdated(g, v.last):
		if was := v.last.Job.TaskGroup(g.tg.Name); was != nil {
			p.Job, p.Group = v.last.Job, was
		}
	}
	g.desired.Place++
	return p
}

// outdated reports whether a terminal allocation ran a version of its group that must be replaced.
func (s *perNode) outdated(g *spots, a *nomad.Allocation) bool {
	return a.Job.CreateIndex == s.req.Job.CreateIndex && s.differ.change(a, g.tg) == destructive
}

// roll replaces the outdated allocations that may be replaced now, in the order of the nodes.
func (s *perNode) roll(g *spots, c *trial) {
	n := s.limit(g, c)
	for _, a := range g.outdated[:n] {
		s.out.Place = append(s.out.Place, Placement{
			Name: a.Name, Group: g.tg, Previous: a, StopPrevious: Replaced, Destructive: true, Node: a.NodeID, Canary: c.on,
		})
	}
	if c.on {
		g.desired.Canary += uint64(n)
	} else {
		g.desired.DestructiveUpdate += uint64(n)
	}
	g.desired.Ignore += uint64(len(g.outdated) - n)
}

// limit returns how many outdated allocations are replaced now.
func (s *perNode) limit(g *spots, c *trial) int {
	n := len(g.outdated)
	switch {
	case s.rollout.rolls(g.tg) && s.rollout.onHold:
		return 0
	case c.on:
		return min(n, c.missing)
	case s.rollout.rolls(g.tg):
		return min(n, s.rollout.room(g.tg, g.live))
	}
	if u := Stagger(s.req.Job, g.tg); u != nil && n > u.MaxParallel {
		s.out.Rolling = true
		return u.MaxParallel
	}
	return n
}

// join adds the group to a new deployment if the version is new to the group, or changes allocations.
func (s *perNode) join(g *spots, c *trial) {
	placed := len(g.free) > 0
	switch {
	case len(g.outdated)+g.inPlace > 0, placed && !s.begun[g.tg.Name], placed && s.rollout.again:
		s.rollout.join(g.tg, c.desired, s.out.Totals[g.tg.Name])
	}
}

// Stagger returns the update strategy for the staggered replacement of a system group without deployments, or nil if
// all are replaced at once. In sysbatch jobs the update block has no effect.
func Stagger(job *nomad.Job, tg *nomad.TaskGroup) *nomad.UpdateStrategy {
	if job.Type != nomad.JobTypeSystem {
		return nil
	}
	u := tg.Update
	if u == nil {
		u = &job.Update
	}
	if u.MaxParallel <= 0 || u.Stagger <= 0 {
		return nil
	}
	return u
}
