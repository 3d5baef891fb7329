package check

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// DefaultGrace is the grace of a check_restart block that sets none.
const DefaultGrace = time.Second

// Restarts computes when a check_restart block requires a restart. Its caller polls it; it reads no clock.
//
//	(not watched) ──Watch──▶ grace ──grace over──▶ healthy ──failure, pending──▶ counting ──interval*(limit-1)──▶ due
//	      ▲                                           ▲  └───────success───────────┘                              │
//	      └───────────────────────────────────────────────────────────────────────────────────────Unwatch, due──┘
//
// The zero value watches nothing. It must not be used concurrently.
type Restarts struct {
	watched map[string]map[message.CheckID]*restart // by task, "" for the group
}

// restart is the state of one check.
type restart struct {
	target *Target
	from   time.Time // the end of the grace
	bad    time.Time // the first of the latest unhealthy results, zero after a success
}

// Due is a restart that a check_restart block requires.
type Due struct {
	Task   string // "" for all running tasks
	Check  message.CheckID
	Reason string // for the event; it has the name of the check
}

// Watch begins to watch the checks of a task, or of the group if task is empty. Their grace begins now.
func (r *Restarts) Watch(task string, targets []*Target, now time.Time) {
	if r.watched == nil {
		r.watched = map[string]map[message.CheckID]*restart{}
	}
	r.watched[task] = map[message.CheckID]*restart{}
	for _, t := range targets {
		if t.Task == task && t.Restart != nil {
			grace := t.Restart.Grace
			if grace <= 0 {
				grace = DefaultGrace
			}
			r.watched[task][t.ID] = &restart{target: t, from: now.Add(grace)}
		}
	}
}

// Unwatch ends Watch.
func (r *Restarts) Unwatch(task string) { delete(r.watched, task) }

// Poll returns the restarts that are due, one for each task or group at most. Their checks are not watched any longer.
func (r *Restarts) Poll(results map[message.CheckID]*message.CheckQueryResult, now time.Time) []Due {
	var out []Due
	for task, checks := range r.watched {
		for id, c := range checks {
			if c.due(results[id], now) {
				out = append(out, Due{Task: task, Check: id, Reason: fmt.Sprintf("healthcheck: check %q unhealthy", c.target.Name)})
				delete(r.watched, task)
				break
			}
		}
	}
	return out
}

// due applies one result. A missing result changes nothing, and neither does a check that Consul does not have.
func (c *restart) due(result *message.CheckQueryResult, now time.Time) bool {
	if result == nil || now.Before(c.from) || c.target.InConsul && result.Status == message.CheckPending {
		return false
	}
	warning := result.Status == message.CheckWarning
	if result.Status == message.CheckSuccess || warning && c.target.Restart.IgnoreWarnings {
		c.bad = time.Time{}
		return false
	}
	if c.bad.IsZero() {
		c.bad = now
	}
	return !now.Before(c.bad.Add(c.target.Interval * time.Duration(c.target.Restart.Limit-1)))
}
