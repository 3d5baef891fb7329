package taskrunner

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// PauseState returns the state of the task's schedule.
func (r *Runner) PauseState() nomad.TaskScheduleState { return r.State().Paused }

// Pause pauses or runs the task against its schedule, or returns it to its schedule. It does not wait until the
// process has started or ended. The state is on the disk when Pause returns, so that it survives the agent.
func (r *Runner) Pause(s nomad.TaskScheduleState) error {
	if r.requests.isKilled() || r.State().State == nomad.TaskStateDead {
		return fmt.Errorf("pause task %s: %w", r.name, ErrNotRunning)
	}
	r.schedule.request(s)
	return r.record.stored()
}
