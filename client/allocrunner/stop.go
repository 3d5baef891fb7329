package allocrunner

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// requestStop makes the loop end every task, after the group's shutdown delay.
// Only the first request counts.
func (r *Runner) requestStop(why string) {
	delay := r.shutdownDelay()
	r.mu.Lock()
	first := r.stopping == nil
	if first {
		r.stopping = &nomad.TaskEvent{Type: nomad.TaskKilling, KillReason: why}
		r.stopAt = time.Now().Add(delay)
	}
	r.mu.Unlock()
	if !first {
		return
	}
	if delay > 0 {
		for _, t := range r.running() {
			t.Emit(&nomad.TaskEvent{Type: nomad.TaskWaitingShuttingDownDelay})
		}
	}
	r.nudge()
}

// shutdownDelay is how long the group wants to be left alone once it is to end.
func (r *Runner) shutdownDelay() time.Duration {
	alloc := r.Alloc()
	group := alloc.Job.TaskGroup(alloc.TaskGroup)
	skip := alloc.DesiredTransition.NoShutdownDelay
	if group == nil || group.ShutdownDelay == nil || skip != nil && *skip || len(r.running()) == 0 {
		return 0
	}
	return *group.ShutdownDelay
}

// skipDelay ends the wait before the tasks are stopped.
func (r *Runner) skipDelay() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopAt = time.Time{}
}

// stopDue says why the tasks are to end, nil when they are not, and how long
// that still has to wait.
func (r *Runner) stopDue() (*nomad.TaskEvent, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping, time.Until(r.stopAt)
}

// delayOver receives when the shutdown delay is over; nil when there is none.
func (r *Runner) delayOver() <-chan time.Time {
	if stopping, wait := r.stopDue(); stopping != nil && wait > 0 {
		return time.After(wait)
	}
	return nil
}
