package deploy

import (
	"iter"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// action is the next step for a deployment: a status change, or an evaluation, possibly with
// allocations to replace.
type action struct {
	event   Event
	replace []string // allocations to mark for rescheduling
	healthy uint64   // latest health report that the evaluation covers
}

// progress records the steps taken for a deployment.
type progress struct {
	healthy  uint64          // index of the latest covered health report
	replaced map[string]bool // allocations marked for replacement
}

// did records a successful action.
func (p *progress) did(act *action) {
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

// sight summarizes the allocations of a deployment.
type sight struct {
	healthy  uint64   // index of the latest report of a healthy one
	replace  []string // unhealthy and not marked yet
	hopeless bool     // one is unhealthy and will not be replaced
	room     bool     // a group has fewer than its count
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

// complete reports whether every group has enough healthy allocations.
func complete(d *nomad.Deployment) bool {
	for _, g := range d.TaskGroups {
		if g.HealthyAllocs < g.DesiredTotal {
			return false
		}
	}
	return true
}

// progressDeadline returns the earliest progress deadline of the groups, or zero if none has one.
func progressDeadline(d *nomad.Deployment) time.Time {
	var first time.Time
	for _, g := range d.TaskGroups {
		if g.ProgressDeadline == 0 || g.HealthyAllocs >= g.DesiredTotal {
			continue
		}
		by := g.RequireProgressBy
		if by.IsZero() { // nothing placed yet
			by = time.Unix(0, d.CreateTime).Add(g.ProgressDeadline)
		}
		if first.IsZero() || by.Before(first) {
			first = by
		}
	}
	return first
}
