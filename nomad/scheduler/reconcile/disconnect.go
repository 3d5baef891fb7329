package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// class is how the connection of its client affects an allocation of a service or batch job.
type class int

const (
	connected     class = 0 // not affected
	ignored       class = 1 // it does not count
	unknown       class = 2 // its client may return
	disconnecting class = 3 // it becomes unknown
	reconnecting  class = 4 // its client returned
	lost          class = 5
)

// classOf classifies an allocation by the connection of its client.
//
//	connected ──heartbeats missed──▶ disconnecting ──▶ unknown ──client returns──▶ reconnecting
//	    └──lost_after 0, or not running──▶ lost ◀──lost_after──┘
//
// node is nil if it does not exist.
func classOf(a *nomad.Allocation, node *nomad.Node, tg *nomad.TaskGroup, now time.Time) class {
	returned := a.WasUnknown()
	stops := a.ServerTerminalStatus()
	switch {
	case returned && stops && a.ClientStatus == nomad.AllocClientStatusFailed:
		return ignored
	case returned && a.ClientStatus == nomad.AllocClientStatusFailed:
		return reconnecting
	case stops && !returned, a.ClientTerminalStatus():
		return connected
	case a.ClientStatus == nomad.AllocClientStatusUnknown && !a.LastUnknown().Add(tg.LostAfter()).After(now):
		return lost
	}
	switch {
	case node == nil:
		return lost
	case node.Status == nomad.NodeStatusDisconnected:
		return whileDisconnected(a, tg)
	case node.Status == nomad.NodeStatusDown && a.ClientStatus == nomad.AllocClientStatusUnknown && !tg.ReplacesDisconnected():
		return unknown
	case node.Status == nomad.NodeStatusDown && a.ClientStatus == nomad.AllocClientStatusRunning && !tg.ReplacesDisconnected():
		return disconnecting
	case node.Status == nomad.NodeStatusDown:
		return lost
	case a.ClientStatus == nomad.AllocClientStatusUnknown:
		return unknown // its client has not reported yet
	case returned:
		return reconnecting
	}
	return connected
}

// whileDisconnected classifies an allocation of a disconnected node.
func whileDisconnected(a *nomad.Allocation, tg *nomad.TaskGroup) class {
	switch {
	case a.ClientStatus == nomad.AllocClientStatusUnknown:
		return unknown
	case a.ClientStatus == nomad.AllocClientStatusPending, tg.LostAfter() == 0:
		return lost
	}
	return disconnecting
}

// classifyLost stops an allocation whose client cannot report. It is replaced, unless it was replaced while it was unknown.
func (g *generic) classifyLost(a *nomad.Allocation, tg *nomad.TaskGroup) (member, bool) {
	if a.ServerTerminalStatus() || a.ClientStatus == nomad.AllocClientStatusUnknown && a.NextAllocation != "" {
		g.out.desired(tg.Name).Stop++
		g.out.stop(a, NodeLost, nomad.AllocClientStatusLost)
		return member{}, false
	}
	if wait := tg.StopTime(); wait > 0 {
		g.out.desired(tg.Name).Stop++
		g.out.stop(a, NodeLost, nomad.AllocClientStatusLost)
		g.stopping = append(g.stopping, later{alloc: a, at: g.req.Now.Add(wait)})
		g.blocked = true
		return member{}, false
	}
	follow := &Placement{Name: a.Name, Group: tg, Previous: a}
	return member{alloc: a, replace: follow, stop: NodeLost, clientStatus: nomad.AllocClientStatusLost}, true
}

// disconnect keeps an allocation whose client is disconnected. It holds its place in the count until it is replaced,
// by the reschedule policy of its group.
func (g *generic) disconnect(a *nomad.Allocation, tg *nomad.TaskGroup, c class) (member, bool) {
	since, becomes := a.LastUnknown(), c == disconnecting
	if becomes {
		since = g.req.Now
		g.out.desired(tg.Name).Disconnect++
	}
	m, counts, waits := g.replaceUnknown(a, tg, since, becomes)
	if becomes {
		// The follow-up of the replacement, if any, has the mark.
		g.disconnected = append(g.disconnected, later{alloc: a, at: g.req.Now.Add(tg.LostAfter()), unknown: !waits})
		m.becomes = true
	}
	return m, counts
}

// replaceUnknown decides about the replacement of an unknown allocation. waits reports whether a follow-up
// evaluation places it.
func (g *generic) replaceUnknown(a *nomad.Allocation, tg *nomad.TaskGroup, since time.Time, becomes bool) (m member, counts, waits bool) {
	switch {
	case a.ServerTerminalStatus(), a.NextAllocation != "" && a.ClientStatus == nomad.AllocClientStatusUnknown:
		return member{}, false, false
	case !tg.ReplacesDisconnected():
		return member{alloc: a}, true, false
	}
	at, delay, ok := dueFrom(a, tg.ReschedulePolicy, since)
	switch {
	case !ok:
		return member{alloc: a}, true, false
	case !at.After(g.req.Now.Add(dueWindow)), !becomes && a.FollowupEvalID == g.req.Eval.ID:
		follow := &Placement{Name: a.Name, Group: tg, Previous: a, Reschedule: &Reschedule{Delay: delay, policy: tg.ReschedulePolicy}}
		return member{alloc: a, replace: follow}, true, false
	case becomes:
		g.waiting = append(g.waiting, later{alloc: a, at: at, unknown: true})
		return member{alloc: a}, true, true
	}
	return member{alloc: a}, true, false
}

// timeouts creates the evaluations that end the time of unknown allocations.
func timeouts(req *Request, disconnected []later, out *Result) {
	schedule(req, disconnected, out, cause{nomad.EvalTriggerMaxDisconnectTimeout, "created for delayed disconnect timeout"})
	for _, w := range disconnected {
		if w.unknown {
			out.Delay = append(out.Delay, Delay{w.alloc, w.eval, true})
		}
	}
}

// reconnect decides between the allocations of clients that returned and their replacements. It stops the others and
// returns their IDs.
func (g *generic) reconnect(tg *nomad.TaskGroup, allocs []*nomad.Allocation) (stopped map[string]bool) {
	stopped = map[string]bool{}
	d := g.out.desired(tg.Name)
	stop := func(a *nomad.Allocation, why string) {
		if !stopped[a.ID] && !a.ServerTerminalStatus() {
			d.Stop++
			g.out.stop(a, why, "")
		}
		stopped[a.ID] = true
	}
	for _, a := range allocs {
		if classOf(a, g.req.Node(a.NodeID), tg, g.req.Now) != reconnecting {
			continue
		}
		d.Reconnect++
		switch {
		case a.ClientStatus == nomad.AllocClientStatusFailed:
			stop(a, Failed)
			continue
		case a.ServerTerminalStatus(), asked(a), !g.thisVersion(a):
			stop(a, whyUnwanted(a, allocs))
			continue
		}
		others, keep := replacements(a, allocs), true
		for _, o := range others {
			keep = keep && keepsOriginal(a, o, strategyOf(tg))
		}
		if !keep {
			stop(a, NotNeeded)
			continue
		}
		for _, o := range others {
			stop(o, Returned)
		}
		g.out.Reconnected = append(g.out.Reconnected, a)
	}
	return stopped
}

// whyUnwanted is the reason to stop an allocation whose client returned, if another one must run in its place.
func whyUnwanted(a *nomad.Allocation, allocs []*nomad.Allocation) string {
	switch {
	case len(replacements(a, allocs)) > 0:
		return NotNeeded
	case asked(a):
		return Moved
	}
	return Replaced
}

// asked reports whether a transition of the allocation is requested.
func asked(a *nomad.Allocation) bool {
	d := a.DesiredTransition
	return isSet(d.Migrate) || isSet(d.Reschedule) || isSet(d.ForceReschedule)
}

// strategyOf returns how the group chooses between an allocation that returned and its replacement.
func strategyOf(tg *nomad.TaskGroup) string {
	if tg.Disconnect == nil {
		return nomad.ReconcileBestScore
	}
	return tg.Disconnect.Reconcile
}

// stopsUntil returns until when the client of a lost allocation may be stopping it. It is zero for other allocations, and
// for one whose client returned and reported its end.
func stopsUntil(a *nomad.Allocation, tg *nomad.TaskGroup) time.Time {
	wait := tg.StopTime()
	switch {
	case wait == 0, a.DesiredDescription != NodeLost, a.NextAllocation != "":
		return time.Time{}
	case a.ClientStatus == nomad.AllocClientStatusComplete, a.ClientStatus == nomad.AllocClientStatusFailed:
		return time.Time{}
	}
	return time.Unix(0, a.ModifyTime).Add(wait)
}

// waitsFor creates an evaluation for the time when the clients of lost allocations have certainly stopped them, unless
// one waits until then.
func (g *generic) waitsFor(tg *nomad.TaskGroup, allocs []*nomad.Allocation) {
	var last later
	for _, a := range allocs {
		if at := stopsUntil(a, tg); at.After(last.at) {
			last = later{alloc: a, at: at}
		}
	}
	if last.at.After(g.req.Now) && !g.open.waits(last.at) {
		g.stopping = append(g.stopping, last)
	}
}
