package allochook

import (
	"time"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// checkPoll is how often the results of the checks are read while the health of an allocation depends on them.
const checkPoll = 500 * time.Millisecond

// healthChecks follows the checks of an allocation for its health.
type healthChecks struct {
	set   *check.Set // nil if checks do not matter
	alloc string
	any   bool      // the allocation has checks
	since time.Time // all checks have been fine since then, zero if they are not
}

func (h *healthHook) checksOf(alloc string, limits healthLimits) *healthChecks {
	c := &healthChecks{alloc: alloc}
	if limits.checks {
		c.set = h.checks
	}
	return c
}

// failingSince reads the results. fine reports whether no check of a task that must run fails or waits for its first result, and
// since when.
func (c *healthChecks) failingSince(states map[string]*nomad.TaskState) (since time.Time, fine bool) {
	if c.set == nil {
		return time.Time{}, true
	}
	checks := c.set.States(c.alloc)
	if c.any = len(checks) > 0; !c.any {
		return time.Time{}, true
	}
	for _, one := range checks {
		if blocks(one, states) {
			c.since = time.Time{}
			return c.since, false
		}
	}
	if c.since.IsZero() {
		c.since = time.Now()
	}
	return c.since, true
}

// blocks reports whether an allocation with the check is not healthy. A paused task answers no check, as intended. A
// check of the group does not name the task that answers it, so that it counts only while no task is paused.
func blocks(c check.State, states map[string]*nomad.TaskState) bool {
	if c.Target.Task == "" && anyPaused(states) || paused(states[c.Target.Task]) {
		return false
	}
	readiness := c.Target.Mode == message.Readiness
	switch c.Result.Status {
	case message.CheckSuccess:
		return false
	case message.CheckWarning:
		return !readiness && !c.Target.IgnoreWarnings
	case message.CheckFailure:
		return !readiness
	}
	return true // pending
}

// paused reports whether a task does not run because of its schedule or of a user.
func paused(s *nomad.TaskState) bool {
	return s != nil && s.State == nomad.TaskStatePending && s.Paused.Pauses()
}

func anyPaused(states map[string]*nomad.TaskState) bool {
	for _, s := range states {
		if paused(s) {
			return true
		}
	}
	return false
}

// limit returns the time until the next look, wait at most.
func (c *healthChecks) limit(wait time.Duration) time.Duration {
	if c.any {
		return min(wait, checkPoll)
	}
	return wait
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
