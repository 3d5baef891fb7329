package allocrunner

import "github.com/open-nomad/open-nomad/nomad"

// Pause pauses or runs a task against its schedule, or returns it to its schedule: see taskrunner.Runner.Pause.
func (r *Runner) Pause(task string, s nomad.TaskScheduleState) error {
	t, err := r.task(task)
	if err != nil {
		return err
	}
	return t.Pause(s)
}

// PauseState returns the state of a task's schedule.
func (r *Runner) PauseState(task string) (nomad.TaskScheduleState, error) {
	t, err := r.task(task)
	if err != nil {
		return "", err
	}
	return t.PauseState(), nil
}
