package deploy

import (
	"iter"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// action is the next step for a deployment: a status change, a promotion of all canaries, or an evaluation,
// possibly with allocations to replace.
type action struct {
	event   Event
	revert  bool // the event also reverts the job to its latest stable version
	promote bool
	replace []string // allocations to mark for rescheduling
	healthy uint64   // latest health report that the evaluation covers
}

// progress records the steps taken for a deployment.
type progress struct {
	healthy  uint64          // index of the latest covered health report
	replaced map[string]bool // allocations marked for replacement
}

// record stores a successful action.
func (p *progress) record(act *action) {
	p.healthy = max(p.healthy, act.healthy)
	for _, id := range act.replace {
		if p.replaced == nil {
			p.replaced = make(map[string]bool)
		}
		p.replaced[id] = true
	}
}

// decide returns the next action for the deployment, or nil. Without an action it returns the time
// of the next check, zero for never.
func (p *progress) decide(d *nomad.Deployment, allocs iter.Seq[*nomad.Allocation], now time.Time) (*action, time.Time) {
	if d.Status != nomad.DeploymentStatusRunning {
		return nil, time.Time{}
	}
	sum := p.summarize(d, allocs, now)
	if sum.complete(d) {
		return &action{event: Complete}, time.Time{}
	}
	deadline := sum.progressDeadline(d)
	if !deadline.IsZero() && !now.Before(deadline) {
		return &action{event: Deadline, revert: sum.lateReverts(d, now)}, time.Time{}
	}
	switch {
	case sum.hopeless:
		return &action{event: Unhealthy, revert: sum.revert}, time.Time{}
	case d.PromotesItself() && sum.canariesReady(d):
		return &action{promote: true}, time.Time{}
	case len(sum.replace) > 0, sum.healthy > p.healthy && sum.room:
		return &action{replace: sum.replace, healthy: sum.healthy}, time.Time{}
	}
	return nil, deadline
}

// summary summarizes the allocations of a deployment.
type summary struct {
	healthy  uint64               // index of the latest report of a healthy one
	replace  []string             // unhealthy and not marked yet
	hopeless bool                 // one is unhealthy and will not be replaced
	revert   bool                 // its group has auto_revert
	room     bool                 // a group has fewer than it needs
	system   bool                 // the allocations are of a system job
	canaries map[string]int       // healthy canaries by group
	live     map[string]int       // healthy allocations that are neither terminal nor unknown, by group
	ended    map[string]time.Time // when the latest healthy allocation of the group became terminal
}

// canariesReady reports whether each group that waits for a promotion has exactly its desired canaries healthy.
func (s *summary) canariesReady(d *nomad.Deployment) bool {
	for name, g := range d.TaskGroups {
		if g.RequiresPromotion() && s.canaries[name] != g.DesiredCanaries {
			return false
		}
	}
	return true
}

func (p *progress) summarize(d *nomad.Deployment, allocs iter.Seq[*nomad.Allocation], now time.Time) summary {
	s := summary{canaries: make(map[string]int), live: make(map[string]int), ended: make(map[string]time.Time)}
	live := make(map[string]int)
	for a := range allocs {
		s.system = s.system || isSystem(a)
		if !a.TerminalStatus() {
			live[a.TaskGroup]++
		}
		health := a.DeploymentStatus
		if health == nil || health.Healthy == nil {
			continue
		}
		if *health.Healthy {
			s.countHealthy(a)
			continue
		}
		group := d.TaskGroups[a.TaskGroup]
		switch {
		case group == nil || a.ServerTerminalStatus() || a.NextAllocation != "":
		case group.ProgressDeadline == 0, isSystem(a), forGood(a, now):
			s.hopeless = true
			s.revert = s.revert || group.AutoRevert
		case !p.replaced[a.ID] && !marked(a):
			s.replace = append(s.replace, a.ID)
		}
	}
	for name, group := range d.TaskGroups {
		if live[name] < group.Needs() {
			s.room = true
		}
	}
	return s
}

// forGood reports whether an unhealthy allocation may not be rescheduled. It may have failed, or run: its health does not
// change any more.
func forGood(a *nomad.Allocation, now time.Time) bool {
	if isSet(a.DesiredTransition.ForceReschedule) || a.Job == nil {
		return false
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	return group != nil && !reconcile.MayReschedule(a, group.ReschedulePolicy, now)
}

func isSet(b *bool) bool { return b != nil && *b }

func marked(a *nomad.Allocation) bool {
	return isSet(a.DesiredTransition.Reschedule)
}

// isSystem reports whether the allocation is of a system job. It is never rescheduled.
func isSystem(a *nomad.Allocation) bool { return a.Job != nil && a.Job.Type == nomad.JobTypeSystem }

// countHealthy adds a healthy allocation.
func (s *summary) countHealthy(a *nomad.Allocation) {
	s.healthy = max(s.healthy, a.DeploymentStatus.ModifyIndex)
	switch {
	case !a.TerminalStatus() && a.IsCanary():
		s.canaries[a.TaskGroup]++
		s.live[a.TaskGroup]++
	case a.ClientStatus == nomad.AllocClientStatusUnknown: // the total does not include its node
	case !a.TerminalStatus():
		s.live[a.TaskGroup]++
	default:
		if at := time.Unix(0, a.ModifyTime); at.After(s.ended[a.TaskGroup]) {
			s.ended[a.TaskGroup] = at
		}
	}
}

// enough reports whether a group has the healthy allocations that it needs for its next step. The counter of the
// deployment includes those that ended later. Canaries must live to be promoted, and a system job needs an
// allocation on each node.
func (s *summary) enough(name string, g *nomad.DeploymentState) bool {
	switch {
	case g.HealthyAllocs < g.Needs():
		return false
	case g.RequiresPromotion():
		return s.canaries[name] >= g.DesiredCanaries
	case s.system:
		return s.live[name] >= g.Needs()
	}
	return true
}

// complete reports whether every group has enough healthy allocations and does not wait for a promotion.
func (s *summary) complete(d *nomad.Deployment) bool {
	for name, g := range d.TaskGroups {
		if !g.Complete() || !s.enough(name, g) {
			return false
		}
	}
	return true
}

// lateReverts reports whether a group with auto_revert reached its progress deadline.
func (s *summary) lateReverts(d *nomad.Deployment, now time.Time) bool {
	for name, g := range d.TaskGroups {
		if by := s.groupDeadline(d, name); g.AutoRevert && !by.IsZero() && !now.Before(by) {
			return true
		}
	}
	return false
}

// progressDeadline returns the earliest progress deadline of the groups, or zero if none has one.
func (s *summary) progressDeadline(d *nomad.Deployment) time.Time {
	var first time.Time
	for name := range d.TaskGroups {
		if by := s.groupDeadline(d, name); !by.IsZero() && (first.IsZero() || by.Before(first)) {
			first = by
		}
	}
	return first
}

// groupDeadline returns the progress deadline of a group. It is zero if the group has none, waits for its first
// allocation, or has enough healthy allocations for its next step. The end of a healthy allocation starts it again.
func (s *summary) groupDeadline(d *nomad.Deployment, name string) time.Time {
	g := d.TaskGroups[name]
	if g.ProgressDeadline == 0 || g.PlacedAllocs == 0 || s.enough(name, g) {
		return time.Time{}
	}
	by := g.RequireProgressBy
	if again := s.ended[name].Add(g.ProgressDeadline); !s.ended[name].IsZero() && again.After(by) {
		return again
	}
	return by
}
