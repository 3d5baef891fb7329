package allocrunner

import (
	"time"

	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
)

// requestStop makes the loop stop every task, after the group's shutdown delay. Later requests
// have no effect.
func (r *Runner) requestStop() {
	delay := r.shutdownDelay()
	r.mu.Lock()
	first := r.stopping == nil
	if first {
		r.stopping = &nomad.TaskEvent{Type: nomad.TaskKilling}
		r.stopAt = time.Now().Add(delay)
		close(r.stopAsked)
	}
	r.mu.Unlock()
	if !first {
		return
	}
	if delay > 0 {
		for _, t := range r.running() {
			t.Emit(taskrunner.DelayEvent(delay))
		}
	}
	r.nudge()
}

// shutdownDelay returns the delay before the group's tasks are stopped.
func (r *Runner) shutdownDelay() time.Duration {
	alloc := r.Alloc()
	group := alloc.Job.TaskGroup(alloc.TaskGroup)
	skip := alloc.DesiredTransition.NoShutdownDelay
	if group == nil || group.ShutdownDelay == nil || skip != nil && *skip || len(r.running()) == 0 {
		return 0
	}
	return *group.ShutdownDelay
}

// skipDelay ends the shutdown delay.
func (r *Runner) skipDelay() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopAt = time.Time{}
}

// stopDue returns why the tasks must stop, nil if they need not, and the remaining delay.
func (r *Runner) stopDue() (*nomad.TaskEvent, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping, time.Until(r.stopAt)
}

// delayOver receives when the shutdown delay ends. It is nil without a delay.
func (r *Runner) delayOver() <-chan time.Time {
	if stopping, wait := r.stopDue(); stopping != nil && wait > 0 {
		return time.After(wait)
	}
	return nil
}
