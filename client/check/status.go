package check

import (
	"cmp"

	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Thresholds are the numbers of results in a row after which the status of a check changes. 0 means at once.
type Thresholds struct {
	Passing  int // successes and warnings
	Critical int // failures
	Warning  int // failures; 0 means the same as Critical, so that failures never cause a warning
}

// tracked is a check with its status.
type tracked struct {
	// latest is the last result, with the status after thresholds. last is the result of the last change of that status:
	// what the state database and the servers have. Neither is modified.
	latest, last        *message.CheckQueryResult
	ran                 bool // there was a result, perhaps of an earlier agent
	successes, failures int  // in a row; an agent begins with 0
}

// next counts a result and returns the status after it. A failure never improves the status.
func (c *tracked) next(t Thresholds, result message.CheckStatus) message.CheckStatus {
	before := c.latest.Status
	if result != message.CheckFailure {
		c.successes, c.failures = c.successes+1, 0
		if c.successes >= t.Passing {
			return result
		}
		return before
	}
	c.successes, c.failures = 0, c.failures+1
	switch {
	case c.failures >= t.Critical:
		return message.CheckFailure
	case before != message.CheckFailure && c.failures >= cmp.Or(t.Warning, t.Critical):
		return message.CheckWarning
	}
	return before
}

// record keeps a result and reports whether the status has changed. A nil result is that of a script whose task does
// not run: nothing before the first run, and a failure afterwards.
func (c *tracked) record(t *Target, r *message.CheckQueryResult) (changed bool) {
	if r == nil {
		if !c.ran {
			return false
		}
		r = t.result(message.CheckFailure, 0, "nomad: the task does not run")
	}
	r.Status = c.next(t.Thresholds, r.Status)
	changed = c.latest.Status != r.Status
	c.latest, c.ran = r, true
	if changed {
		c.last = r
	}
	return changed
}

// initialStatus returns the status of a check before its first result, "" for pending.
func initialStatus(word string) message.CheckStatus {
	for status, health := range healths {
		if word == string(health) && status != message.CheckPending {
			return status
		}
	}
	return ""
}

// healths has the status in the catalog for each status of a check. A check without a result is critical, as with
// Consul.
var healths = map[message.CheckStatus]catalog.Status{
	message.CheckSuccess: catalog.Passing,
	message.CheckWarning: catalog.Warning,
	message.CheckFailure: catalog.Critical,
	message.CheckPending: catalog.Critical,
}
