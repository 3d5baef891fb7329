package reconcile

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Generic reconciles a service or batch job.
func Generic(req *Request) *Result {
	out := &Result{Desired: map[string]*nomad.DesiredUpdates{}}
	g := &generic{req: req, out: out, batch: req.Eval.Type == nomad.JobTypeBatch, open: openEvals{req: req}}
	g.rollout = newRollout(req, out)
	byGroup := map[string][]*nomad.Allocation{}
	lostMeanwhile(req, out)
	for _, a := range req.Allocs {
		byGroup[a.TaskGroup] = append(byGroup[a.TaskGroup], a)
	}
	if req.Job.Stopped() {
		g.stopAll(byGroup, func(string) bool { return true })
		return out
	}
	g.differ = newDiffer(req.Job)
	g.stopAll(byGroup, func(group string) bool { return req.Job.TaskGroup(group) == nil })
	for _, tg := range req.Job.TaskGroups {
		g.group(tg, byGroup[tg.Name])
	}
	followups(req, g.waiting, out)
	timeouts(req, g.disconnected, out)
	schedule(req, g.stopping, out, cause{trigger: nomad.EvalTriggerRetryFailedAlloc})
	g.rollout.finish()
	return out
}

type generic struct {
	req     *Request
	out     *Result
	batch   bool
	differ  *differ
	rollout *rollout
	open    openEvals
	waiting []later
	// disconnected are the allocations that become unknown. stopping are lost ones that their client may still stop.
	disconnected, stopping []later
	blocked                bool // nothing is placed for the current group, because of an allocation that its client may still stop
}

// stopAll stops the live allocations of the groups that match.
func (g *generic) stopAll(byGroup map[string][]*nomad.Allocation, match func(group string) bool) {
	for _, a := range g.req.Allocs { // by list, since map order is random
		if !match(a.TaskGroup) {
			continue
		}
		d := g.out.desired(a.TaskGroup)
		if a.TerminalStatus() {
			continue
		}
		d.Stop++
		g.out.stop(a, NotNeeded, lostStatus(g.req.Node(a.NodeID)))
	}
}

// lostMeanwhile marks allocations as lost that were to stop on a node that is down: their client
// cannot report the stop.
func lostMeanwhile(req *Request, out *Result) {
	for _, a := range req.Allocs {
		n := req.Node(a.NodeID)
		if a.ServerTerminalStatus() && !a.ClientTerminalStatus() && (n == nil || n.TerminalStatus()) {
			out.stop(a, NodeLost, nomad.AllocClientStatusLost)
		}
	}
}

// lostStatus is the client status of an allocation whose client cannot report.
func lostStatus(n *nomad.Node) string {
	if gone(n) {
		return nomad.AllocClientStatusLost
	}
	return ""
}

func gone(n *nomad.Node) bool {
	return n == nil || n.Status == nomad.NodeStatusDown || n.Status == nomad.NodeStatusDisconnected
}

// member is an allocation that counts towards a group's count.
type member struct {
	alloc *nomad.Allocation
	// replace, if not nil, is its replacement.
	replace *Placement
	// stop is the reason to stop it regardless of the replacement, or empty.
	stop, clientStatus string
	// becomes is set if it becomes unknown now.
	becomes bool
}

// group reconciles one group: it classifies the allocations, trims them to the count, places
// missing ones and updates the rest.
func (g *generic) group(tg *nomad.TaskGroup, allocs []*nomad.Allocation) {
	d := g.out.desired(tg.Name)
	waitingFrom := len(g.waiting)
	g.blocked = slices.ContainsFunc(allocs, func(a *nomad.Allocation) bool { return stopsUntil(a, tg).After(g.req.Now) })
	if g.blocked {
		g.waitsFor(tg, allocs)
	}
	stopped := g.reconnect(tg, allocs)
	c := newCanaries(g, tg, slices.DeleteFunc(slices.Clone(allocs), func(a *nomad.Allocation) bool { return stopped[a.ID] }))
	members := g.members(tg, c)
	members = append(members, g.unreplaced(tg, c, members)...)
	members = g.trim(tg, members, waitingFrom)
	keep, placed := g.replaceMembers(tg, members, d)
	free := newNames(g.req.Job.ID, tg.Name)
	for _, m := range members {
		free.take(m.alloc)
	}
	if !c.on {
		placed += g.fill(tg, tg.Count-len(members), free, d)
	}
	updates, inPlace := g.updates(tg, keep)
	firstOfVersion := !slices.ContainsFunc(allocs, g.thisVersion)
	updated, placedAgain := len(updates)+inPlace > 0, g.rollout.again && placed > 0
	if firstOfVersion || updated || placedAgain {
		g.rollout.join(tg, c.desired(), tg.Count)
	}
	d.InPlaceUpdate += uint64(inPlace)

	n := len(updates)
	switch {
	case c.on:
		n = 0
	case g.rollout.rolls(tg):
		n = min(n, max(g.rollout.room(tg, keep)-placed, 0))
	}
	for i, name := range newNamesOf(updates[:n], keep, free) {
		d.DestructiveUpdate++
		g.out.Place = append(g.out.Place, Placement{
			Name: name, Group: tg, Previous: updates[i], StopPrevious: Replaced, Destructive: true,
		})
	}
	placed += c.place(updates, d)
	d.Ignore += uint64(len(keep) - n - inPlace)
	d.RescheduleLater += uint64(len(g.waiting) - waitingFrom)
	if c.on || len(updates) > 0 || placed > 0 {
		g.rollout.busy = true
	}
}

// members returns the allocations that count towards the group, without its canaries.
func (g *generic) members(tg *nomad.TaskGroup, c *canaries) []member {
	var members []member
	for _, a := range c.others {
		if m, ok := g.classify(a, tg, c.on); ok {
			c.older(&m)
			members = append(members, m)
		}
	}
	return members
}

// classify reports whether an allocation counts towards the group, and how. waiting is set while canaries run:
// then a failed allocation is not replaced by the new version.
func (g *generic) classify(a *nomad.Allocation, tg *nomad.TaskGroup, waiting bool) (member, bool) {
	switch c := classOf(a, g.req.Node(a.NodeID), tg, g.req.Now); c {
	case ignored:
		return member{}, false
	case lost:
		return g.classifyLost(a, tg)
	case unknown, disconnecting:
		return g.disconnect(a, tg, c)
	}
	if a.ServerTerminalStatus() {
		return member{alloc: a}, g.ended(a)
	}
	switch nomad.EndingOf(g.req.Eval.Type, a.ClientStatus) {
	case nomad.EndDone: // it keeps counting until the job changes
		return member{alloc: a}, g.thisVersion(a)
	case nomad.EndReplaced:
		return member{}, false
	case nomad.EndByPolicy, nomad.EndDelayed:
		if waiting && a.NextAllocation == "" {
			return g.byPolicy(a, &Placement{Name: a.Name, Group: tg, Previous: a, StopPrevious: whyReplaced(a)}), true
		}
		return g.classifyEnded(a, tg)
	}
	return g.classifyLive(a, tg), true
}

// ended reports whether a drain ends the batch allocation without a replacement. It keeps counting
// until the job changes.
func (g *generic) ended(a *nomad.Allocation) bool {
	return g.batch && isSet(a.DesiredTransition.MigrateDisablePlacement) && g.thisVersion(a)
}

// thisVersion reports whether the allocation belongs to the current version of the job.
func (g *generic) thisVersion(a *nomad.Allocation) bool {
	return sameVersion(a, g.req.Job)
}

func (g *generic) classifyLive(a *nomad.Allocation, tg *nomad.TaskGroup) member {
	follow := &Placement{Name: a.Name, Group: tg, Previous: a}
	move := a.DesiredTransition
	switch {
	case isSet(move.Migrate) && g.ended(a):
		return member{alloc: a, stop: Moved}
	case isSet(move.Migrate):
		return member{alloc: a, replace: follow, stop: Moved}
	case isSet(move.Reschedule) && unhealthy(a):
		follow.StopPrevious = Failed
		return g.byPolicy(a, follow)
	case isSet(move.Reschedule), isSet(move.ForceReschedule):
		follow.Reschedule = &Reschedule{policy: tg.ReschedulePolicy}
		follow.StopPrevious = Failed
		return member{alloc: a, replace: follow}
	}
	return member{alloc: a}
}

func isSet(b *bool) bool { return b != nil && *b }

// unhealthy reports whether the deployment marked the allocation unhealthy.
func unhealthy(a *nomad.Allocation) bool {
	s := a.DeploymentStatus
	return s != nil && s.Healthy != nil && !*s.Healthy
}

// classifyEnded handles an allocation that ended on its node although it must run.
func (g *generic) classifyEnded(a *nomad.Allocation, tg *nomad.TaskGroup) (member, bool) {
	if a.NextAllocation != "" {
		return member{}, false // already replaced
	}
	follow := &Placement{Name: a.Name, Group: tg, Previous: a, StopPrevious: whyReplaced(a)}
	if g.differ.change(a, tg) == destructive {
		// A new version resets the reschedule history.
		follow.StopPrevious, follow.Destructive = Replaced, true
		return member{alloc: a, replace: follow}, true
	}
	return g.byPolicy(a, follow), true
}

// whyReplaced is the reason to stop an ended allocation once its replacement has a node.
func whyReplaced(a *nomad.Allocation) string {
	if a.ClientStatus == nomad.AllocClientStatusComplete {
		return Ended
	}
	return Failed
}

// byPolicy replaces an allocation now, later or never, according to the reschedule policy of its
// group.
func (g *generic) byPolicy(a *nomad.Allocation, follow *Placement) member {
	policy := follow.Group.ReschedulePolicy
	at, delay, ok := due(a, policy, g.req.Now)
	if !ok && nomad.EndingOf(g.req.Eval.Type, a.ClientStatus) == nomad.EndDelayed {
		at, delay, ok = dueRegardless(a, policy, g.req.Now)
	}
	follow.Reschedule = &Reschedule{Delay: delay, policy: policy}
	switch {
	case isSet(a.DesiredTransition.ForceReschedule):
		return member{alloc: a, replace: follow}
	case !ok, g.rollout.halted && g.rollout.inDeployment(a):
		return member{alloc: a}
	case !at.After(g.req.Now.Add(dueWindow)), a.FollowupEvalID == g.req.Eval.ID,
		g.req.Node(a.NodeID) == nil: // plans for a deleted node are rejected, so that it cannot wait
		return member{alloc: a, replace: follow}
	}
	if a.FollowupEvalID == "" || !g.open.pending(a.FollowupEvalID) {
		g.waiting = append(g.waiting, later{alloc: a, at: at})
	}
	return member{alloc: a}
}

// replaceMembers stops the members that must stop, requests their replacements, and returns the
// other members.
func (g *generic) replaceMembers(tg *nomad.TaskGroup, members []member, d *nomad.DesiredUpdates) (keep []*nomad.Allocation, placed int) {
	for _, m := range members {
		switch {
		case m.replace == nil && m.stop != "": // it holds its place in the count
			d.Migrate++
			g.out.stop(m.alloc, m.stop, m.clientStatus)
			continue
		case m.replace == nil:
			keep = append(keep, m.alloc)
			continue
		}
		placed++
		switch {
		case m.stop == Moved:
			d.Migrate++
		case m.replace.Reschedule != nil:
			d.RescheduleNow++
			d.Place++
		default:
			d.Place++
		}
		if m.stop != "" {
			if m.stop != Moved {
				d.Stop++
			}
			g.out.stop(m.alloc, m.stop, m.clientStatus)
		} else if m.replace.StopPrevious != "" {
			d.Stop++
		}
		g.out.Place = append(g.out.Place, *m.replace)
	}
	return keep, placed
}

// fill places the missing allocations under the lowest free names. It adds nothing while a
// deployment is on hold.
func (g *generic) fill(tg *nomad.TaskGroup, missing int, free *names, d *nomad.DesiredUpdates) int {
	if missing <= 0 || g.rollout.onHold || g.blocked {
		return 0
	}
	for range missing {
		g.out.Place = append(g.out.Place, Placement{Name: free.free(), Group: tg})
	}
	d.Place += uint64(missing)
	return missing
}

// updates returns the kept allocations that the new version must replace, and updates the others in
// place.
func (g *generic) updates(tg *nomad.TaskGroup, keep []*nomad.Allocation) (destroy []*nomad.Allocation, inPlace int) {
	for _, a := range keep {
		if a.TerminalStatus() || gone(g.req.Node(a.NodeID)) || a.ClientStatus == nomad.AllocClientStatusUnknown {
			continue
		}
		switch {
		case g.differ.change(a, tg) == same:
		case g.destroys(a, tg):
			destroy = append(destroy, a)
		default:
			g.out.InPlace = append(g.out.InPlace, a)
			inPlace++
		}
	}
	slices.SortStableFunc(destroy, func(a, b *nomad.Allocation) int { return cmp.Compare(a.Index(), b.Index()) })
	return destroy, inPlace
}

// destroys reports whether the current version must replace the allocation, because its tasks differ or its node no
// longer meets the demands of the group.
func (g *generic) destroys(a *nomad.Allocation, tg *nomad.TaskGroup) bool {
	switch g.differ.change(a, tg) {
	case same:
		return false
	case harmless:
		return !gone(g.req.Node(a.NodeID)) && !newRunTime(a, tg) && !g.req.Suits(a, tg)
	}
	return true
}

// newRunTime reports whether the new version changes max_run_duration. Such an update is not tested for its fit.
func newRunTime(a *nomad.Allocation, tg *nomad.TaskGroup) bool {
	if a.Job == nil {
		return false
	}
	was := a.Job.TaskGroup(tg.Name)
	return was != nil && !equal(was.MaxRunDuration, tg.MaxRunDuration)
}
