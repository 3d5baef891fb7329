package allocrunner

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
)

// requestStop makes the loop stop every task, after the pre-kill hooks and the group's shutdown delay. Later requests
// have no effect.
func (r *Runner) requestStop() {
	r.mu.Lock()
	first := r.stopping == nil
	if first {
		r.stopping = &nomad.TaskEvent{Type: nomad.TaskKilling}
		close(r.stopAsked)
	}
	r.mu.Unlock()
	if first {
		r.nudge()
	}
}

// beginDelay starts the shutdown delay of the group, once.
func (r *Runner) beginDelay() {
	delay := r.shutdownDelay()
	r.mu.Lock()
	first := !r.delaying
	if first {
		r.delaying, r.stopAt = true, time.Now().Add(delay)
	}
	r.mu.Unlock()
	if !first || delay <= 0 {
		return
	}
	for _, t := range r.running() {
		t.Emit(taskrunner.DelayEvent(delay))
	}
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

// restartDelay waits for the shutdown delay of the group before its tasks are restarted. A stop ends the wait.
func (r *Runner) restartDelay(ctx context.Context) {
	timer := time.NewTimer(r.shutdownDelay())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.stopAsked:
	case <-ctx.Done():
	}
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
