package deploy

import (
	"iter"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// action is what a deployment needs now: a move, or an evaluation with or without
// allocations to replace.
type action struct {
	event   Event
	replace []string // allocations to mark for rescheduling
	healthy uint64   // the newest health that the evaluation answers to
}

// progress is what was done for a deployment.
type progress struct {
	healthy  uint64          // index of the newest health that was answered to
	replaced map[string]bool // allocations that were marked
}

// did records that act went through.
func (p *progress) did(act *action) {
	p.healthy = max(p.healthy, act.healthy)
	for _, id := range act.replace {
		if p.replaced == nil {
			p.replaced = make(map[string]bool)
		}
		p.replaced[id] = true
	}
}

// decide returns what the deployment needs now, nil for nothing, and then when to
// look again at the latest (zero for never).
func (p *progress) decide(d *nomad.Deployment, allocs iter.Seq[*nomad.Allocation], now time.Time) (*action, time.Time) {
	if d.Status != nomad.DeploymentStatusRunning {
		return nil, time.Time{}
	}
	if complete(d) {
		return &action{event: Complete}, time.Time{}
	}
	deadline := progressDeadline(d)
	if !deadline.IsZero() && !now.Before(deadline) {
		return &action{event: Deadline}, time.Time{}
	}
	seen := p.look(d, allocs, now)
	switch {
	case seen.hopeless:
		return &action{event: Unhealthy}, time.Time{}
	case len(seen.replace) > 0, seen.healthy > p.healthy && seen.room:
		return &action{replace: seen.replace, healthy: seen.healthy}, time.Time{}
	}
	return nil, deadline
}

// sight is what the allocations of a deployment tell.
type sight struct {
	healthy  uint64   // index of the newest report of a healthy one
	replace  []string // unhealthy ones that are not marked yet
	hopeless bool     // one is unhealthy and no other is going to replace it
	room     bool     // a group has fewer than it should have
}

func (p *progress) look(d *nomad.Deployment, allocs iter.Seq[*nomad.Allocation], now time.Time) sight {
	var s sight
	live := make(map[string]int)
	for a := range allocs {
		if !a.TerminalStatus() {
			live[a.TaskGroup]++
		}
		health := a.DeploymentStatus
		if health == nil || health.Healthy == nil {
			continue
		}
		if *health.Healthy {
			s.healthy = max(s.healthy, health.ModifyIndex)
			continue
		}
		group := d.TaskGroups[a.TaskGroup]
		switch {
		case group == nil || a.ServerTerminalStatus() || a.NextAllocation != "":
		case group.ProgressDeadline == 0, failedForGood(a, now):
			s.hopeless = true
		case !p.replaced[a.ID] && !marked(a):
			s.replace = append(s.replace, a.ID)
		}
	}
	for name, group := range d.TaskGroups {
		if live[name] < group.DesiredTotal {
			s.room = true
		}
	}
	return s
}

// failedForGood reports whether an allocation failed and may not be rescheduled.
func failedForGood(a *nomad.Allocation, now time.Time) bool {
	if a.ClientStatus != nomad.AllocClientStatusFailed || isSet(a.DesiredTransition.ForceReschedule) || a.Job == nil {
		return false
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	return group != nil && !reconcile.MayReschedule(a, group.ReschedulePolicy, now)
}

func isSet(b *bool) bool { return b != nil && *b }

func marked(a *nomad.Allocation) bool {
	return isSet(a.DesiredTransition.Reschedule)
}

// complete says whether every group has its healthy allocations.
func complete(d *nomad.Deployment) bool {
	for _, g := range d.TaskGroups {
		if g.HealthyAllocs < g.DesiredTotal {
			return false
		}
	}
	return true
}

// progressDeadline returns when the first of the groups must have made progress,
// zero when none must.
func progressDeadline(d *nomad.Deployment) time.Time {
	var first time.Time
	for _, g := range d.TaskGroups {
		if g.ProgressDeadline == 0 || g.HealthyAllocs >= g.DesiredTotal {
			continue
		}
		by := g.RequireProgressBy
		if by.IsZero() { // nothing was placed yet
			by = time.Unix(0, d.CreateTime).Add(g.ProgressDeadline)
		}
		if first.IsZero() || by.Before(first) {
			first = by
		}
	}
	return first
}
