package allocrunner

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Expire ends all tasks because the allocation exceeded max_run_duration. Neither the group's
// shutdown delay nor a poststop task extends its run.
func (r *Runner) Expire() {
	r.mu.Lock()
	r.expired, r.stopAt = true, time.Time{}
	if r.stopping == nil {
		r.stopping = expiryEvent()
	}
	r.mu.Unlock()
	r.nudge()
}

func (r *Runner) isExpired() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expired
}

// expiryEvent returns the event of a task that max_run_duration ends.
func expiryEvent() *nomad.TaskEvent {
	return &nomad.TaskEvent{Type: nomad.TaskKilling, KillReason: nomad.AllocTimeoutReasonMaxRunDuration}
}

// stopAll adds the poststop tasks to those to stop, also those that have not started.
func (s *steps) stopAll(tasks []*nomad.Task, states map[string]*nomad.TaskState) {
	for _, t := range tasks {
		if poststop(t) && states[t.Name].State != nomad.TaskStateDead {
			s.stop[t.Name] = expiryEvent()
		}
	}
}

// expired reports whether max_run_duration ended a task. The events of the tasks are stored, so
// that the description of the allocation is the same after a restart of the agent.
func expired(states map[string]*nomad.TaskState) bool {
	for _, s := range states {
		for _, e := range s.Events {
			if e.Type == nomad.TaskKilled && e.KillReason == nomad.AllocTimeoutReasonMaxRunDuration {
				return true
			}
		}
	}
	return false
}
