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

// status is the status of one check.
type status struct {
	// latest is the last result, with the status after thresholds. last is the result of the last change of that status:
	// what the state database and the servers have. Neither is modified.
	latest, last        *message.CheckQueryResult
	ran                 bool // there was a result, perhaps of an earlier agent
	successes, failures int  // in a row; an agent begins with 0
}

// next counts a result and returns the status after it. A failure never improves the status.
func (s *status) next(t Thresholds, result message.CheckStatus) message.CheckStatus {
	before := s.latest.Status
	if result != message.CheckFailure {
		s.successes, s.failures = s.successes+1, 0
		if s.successes >= t.Passing {
			return result
		}
		return before
	}
	s.successes, s.failures = 0, s.failures+1
	switch {
	case s.failures >= t.Critical:
		return message.CheckFailure
	case before != message.CheckFailure && s.failures >= cmp.Or(t.Warning, t.Critical):
		return message.CheckWarning
	}
	return before
}

// record keeps a result and reports whether the status has changed. A nil result is that of a script whose task does
// not run: nothing before the first run, and a failure afterwards.
func (s *status) record(t *Target, r *message.CheckQueryResult) (changed bool) {
	if r == nil {
		if !s.ran {
			return false
		}
		r = t.result(message.CheckFailure, 0, "nomad: the task does not run")
	}
	r.Status = s.next(t.Thresholds, r.Status)
	changed = s.latest.Status != r.Status
	s.latest, s.ran = r, true
	if changed {
		s.last = r
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
