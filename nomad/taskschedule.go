package nomad

// The states of a task with a schedule, or that an operator pauses.
const (
	TaskScheduleStateRun         TaskScheduleState = ""
	TaskScheduleStateForceRun    TaskScheduleState = "force_run"
	TaskScheduleStateSchedPause  TaskScheduleState = "scheduled_pause"
	TaskScheduleStateForcePause  TaskScheduleState = "force_pause"
	TaskScheduleStateSchedResume TaskScheduleState = "schedule_resume"
)

// Pauses reports whether a task in this state must not run.
func (s TaskScheduleState) Pauses() bool {
	return s == TaskScheduleStateSchedPause || s == TaskScheduleStateForcePause
}

// Forced reports whether an operator has set the state, so that the schedule does not apply.
func (s TaskScheduleState) Forced() bool {
	return s == TaskScheduleStateForceRun || s == TaskScheduleStateForcePause
}

// HasPausedTask reports whether a task of the allocation is paused.
func (a *Allocation) HasPausedTask() bool {
	for _, s := range a.TaskStates {
		if s != nil && s.State != TaskStateDead && s.Paused.Pauses() {
			return true
		}
	}
	return false
}
