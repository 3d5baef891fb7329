package allochook

import (
	"time"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/nomad"
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

// look reads the results. fine reports whether no check fails or waits for its first result, and since when.
func (c *healthChecks) look() (since time.Time, fine bool) {
	if c.set == nil {
		return time.Time{}, true
	}
	results := c.set.Results(c.alloc)
	if c.any = len(results) > 0; !c.any {
		return time.Time{}, true
	}
	for _, r := range results {
		if blocks(r) {
			c.since = time.Time{}
			return c.since, false
		}
	}
	if c.since.IsZero() {
		c.since = time.Now()
	}
	return c.since, true
}

// blocks reports whether an allocation with the result is not healthy.
func blocks(r *nomad.CheckQueryResult) bool {
	return r.Status == nomad.CheckPending || r.Status == nomad.CheckFailure && r.Mode != nomad.Readiness
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
