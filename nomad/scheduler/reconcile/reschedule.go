package reconcile

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Delay functions of a reschedule policy.
const (
	delayExponential = "exponential"
	delayFibonacci   = "fibonacci"
)

const (
	// followupWindow is the period within which failed allocations share one follow-up evaluation.
	followupWindow = 5 * time.Second
	// dueWindow is how early a failed allocation may be replaced.
	dueWindow = time.Second
	// keptEvents is how many events are kept under an unlimited policy.
	keptEvents = 5
	// regardlessDelay is the delay before an ended allocation is replaced if its policy allows no replacement.
	regardlessDelay = 30 * time.Second
)

// Reschedule describes the replacement of a failed allocation and the history that its replacement
// keeps.
type Reschedule struct {
	Delay  time.Duration
	policy *nomad.ReschedulePolicy
}

// Tracker returns the reschedule tracker of the replacement.
func (r *Reschedule) Tracker(prev *nomad.Allocation, now time.Time) *nomad.RescheduleTracker {
	var events []*nomad.RescheduleEvent
	if prev.RescheduleTracker != nil {
		events = slices.Clone(prev.RescheduleTracker.Events)
	}
	if p := r.policy; p != nil {
		if p.Unlimited && len(events) > keptEvents {
			events = events[len(events)-keptEvents:]
		}
		if !p.Unlimited {
			since := now.Add(-p.Interval).UnixNano()
			events = slices.DeleteFunc(events, func(e *nomad.RescheduleEvent) bool { return e.RescheduleTime < since })
		}
	}
	events = append(events, &nomad.RescheduleEvent{
		RescheduleTime: now.UnixNano(),
		PrevAllocID:    prev.ID,
		PrevNodeID:     prev.NodeID,
		Delay:          r.Delay,
	})
	return &nomad.RescheduleTracker{Events: events, LastReschedule: nomad.LastRescheduleSuccess}
}

// MayReschedule reports whether a failed allocation may be replaced, now or later.
func MayReschedule(a *nomad.Allocation, p *nomad.ReschedulePolicy, now time.Time) bool {
	_, _, ok := due(a, p, now)
	return ok
}

// due returns when the policy allows the replacement of a failed allocation, and the delay used. ok
// is false if no attempt remains.
func due(a *nomad.Allocation, p *nomad.ReschedulePolicy, now time.Time) (at time.Time, delay time.Duration, ok bool) {
	return dueFrom(a, p, failedAt(a, now))
}

// dueFrom is due for an allocation that failed or became unknown at a time.
func dueFrom(a *nomad.Allocation, p *nomad.ReschedulePolicy, failed time.Time) (at time.Time, delay time.Duration, ok bool) {
	if p == nil || !p.Unlimited && (p.Attempts <= 0 || p.Interval <= 0) {
		return time.Time{}, 0, false
	}
	var events []*nomad.RescheduleEvent
	if a.RescheduleTracker != nil {
		events = a.RescheduleTracker.Events
	}
	if !p.Unlimited {
		since, used := failed.Add(-p.Interval).UnixNano(), 0
		for _, e := range events {
			if e.RescheduleTime > since {
				used++
			}
		}
		if used >= p.Attempts {
			return time.Time{}, 0, false
		}
	}
	delay = nextDelay(p, events, failed)
	if !p.Unlimited && delay >= p.Interval {
		return time.Time{}, 0, false
	}
	return failed.Add(delay), delay, true
}

// dueRegardless returns when an allocation is replaced that the policy no longer replaces: after the longest delay of the
// policy, or after regardlessDelay if it has none.
func dueRegardless(a *nomad.Allocation, p *nomad.ReschedulePolicy, now time.Time) (at time.Time, delay time.Duration, ok bool) {
	delay = regardlessDelay
	if p != nil {
		delay = max(delay, p.Delay, p.MaxDelay)
	}
	return failedAt(a, now).Add(delay), delay, true
}

// failedAt returns when the last task ended.
func failedAt(a *nomad.Allocation, now time.Time) time.Time {
	var last time.Time
	for _, ts := range a.TaskStates {
		if ts.FinishedAt.After(last) {
			last = ts.FinishedAt
		}
	}
	switch {
	case !last.IsZero():
		return last
	case a.ModifyTime > 0:
		return time.Unix(0, a.ModifyTime)
	}
	return now
}

// nextDelay increases the delay with each event up to the policy's maximum. The delay is reset for
// an allocation that ran longer than the maximum before it failed.
func nextDelay(p *nomad.ReschedulePolicy, events []*nomad.RescheduleEvent, failed time.Time) time.Duration {
	n := len(events)
	if n == 0 {
		return p.Delay
	}
	last := events[n-1]
	var delay time.Duration
	switch p.DelayFunction {
	case delayExponential:
		delay = last.Delay * 2
	case delayFibonacci:
		delay = last.Delay
		if n > 1 && events[n-2].Delay <= last.Delay { // otherwise a reset began a new series
			delay += events[n-2].Delay
		}
	default:
		return p.Delay
	}
	if p.MaxDelay > 0 && delay > p.MaxDelay {
		if failed.Sub(time.Unix(0, last.RescheduleTime)) > p.MaxDelay {
			return p.Delay
		}
		delay = p.MaxDelay
	}
	return max(delay, p.Delay)
}

// later is an allocation that may be replaced at a later time.
type later struct {
	alloc   *nomad.Allocation
	at      time.Time
	unknown bool   // it becomes unknown now
	eval    string // the ID of its evaluation, see schedule
}

// followups creates the evaluations for later replacements. Those due within followupWindow share
// the earliest evaluation.
func followups(req *Request, waiting []later, out *Result) {
	first := len(out.Followups)
	schedule(req, waiting, out, cause{nomad.EvalTriggerAllocReschedule, "created for delayed rescheduling"})
	for _, w := range waiting {
		out.Delay = append(out.Delay, Delay{w.alloc, w.eval, w.unknown})
	}
	for i := first + 1; i < len(out.Followups); i++ { // as in Nomad
		out.Followups[i].TriggeredBy, out.Followups[i].StatusDescription = nomad.EvalTriggerRetryFailedAlloc, ""
	}
}

// cause is the trigger of an evaluation and its description, "" for none.
type cause struct{ trigger, description string }

// schedule creates the evaluations for later times. It sorts the allocations by time, and sets the evaluation of each.
func schedule(req *Request, waiting []later, out *Result, why cause) {
	slices.SortStableFunc(waiting, func(a, b later) int { return a.at.Compare(b.at) })
	var current *nomad.Evaluation
	for i, w := range waiting {
		if current == nil || w.at.Sub(current.WaitUntil) > followupWindow {
			current = followup(req, w.at, why)
			out.Followups = append(out.Followups, current)
		}
		waiting[i].eval = current.ID
	}
}

func followup(req *Request, at time.Time, why cause) *nomad.Evaluation {
	e := req.Eval.Next(req.NewID(), why.trigger, req.Now)
	e.StatusDescription, e.WaitUntil = why.description, at
	return e
}
