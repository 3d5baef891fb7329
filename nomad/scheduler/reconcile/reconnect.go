package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// keepsOriginal reports whether the allocation of a client that returned is kept instead of its replacement.
// A newer version of the job wins; then the strategy of the group decides.
func keepsOriginal(original, replacement *nomad.Allocation, strategy string) bool {
	if was, is := versionOf(original), versionOf(replacement); was != is {
		return was > is
	}
	switch strategy {
	case nomad.ReconcileKeepOriginal:
		return true
	case nomad.ReconcileKeepReplacement:
		return false
	case nomad.ReconcileLongestRunning:
		was, is := startOf(original), startOf(replacement)
		switch {
		case was.IsZero() && is.IsZero(): // the scores decide
		case was.IsZero():
			return false
		case is.IsZero():
			return true
		case !was.Equal(is):
			return was.Before(is)
		}
	}
	return !betterScore(original, replacement)
}

// betterScore reports whether the replacement has the better score, and runs unless neither runs.
func betterScore(original, replacement *nomad.Allocation) bool {
	was, hadScore := normScore(original)
	is, hasScore := normScore(replacement)
	if !hasScore || hadScore && is <= was {
		return false
	}
	return runs(replacement) || !runs(original)
}

func runs(a *nomad.Allocation) bool { return a.ClientStatus == nomad.AllocClientStatusRunning }

// normScore returns the normalized score of the allocation's node at its placement.
func normScore(a *nomad.Allocation) (score float64, ok bool) {
	if a.Metrics == nil {
		return 0, false
	}
	for _, s := range a.Metrics.ScoreMetaData {
		if s.NodeID == a.NodeID {
			return s.NormScore, true
		}
	}
	return 0, false
}

// startOf returns when the leader task last started or restarted, or without a leader the first of the tasks. It is
// zero if nothing has started.
func startOf(a *nomad.Allocation) time.Time {
	if a.Job == nil {
		return time.Time{}
	}
	tg := a.Job.TaskGroup(a.TaskGroup)
	if tg == nil {
		return time.Time{}
	}
	var first time.Time
	for _, t := range tg.Tasks {
		s := a.TaskStates[t.Name]
		if s == nil || s.StartedAt.IsZero() {
			continue
		}
		start := s.StartedAt
		if s.LastRestart.After(start) {
			start = s.LastRestart
		}
		if t.Leader {
			return start
		}
		if first.IsZero() || start.Before(first) {
			first = start
		}
	}
	return first
}

// replacements returns the live allocations that replace original, directly or in turn.
func replacements(original *nomad.Allocation, all []*nomad.Allocation) []*nomad.Allocation {
	byID := make(map[string]*nomad.Allocation, len(all))
	for _, a := range all {
		byID[a.ID] = a
	}
	var out []*nomad.Allocation
	seen := map[string]bool{original.ID: true}
	for next := byID[original.NextAllocation]; next != nil && !seen[next.ID]; next = byID[next.NextAllocation] {
		seen[next.ID] = true
		if !next.TerminalStatus() {
			out = append(out, next)
		}
	}
	return out
}
