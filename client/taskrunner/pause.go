package taskrunner

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/cron"
	"github.com/open-nomad/open-nomad/nomad"
)

// maxScheduleWait is the longest time between two evaluations of a schedule, since the clock can be
// set meanwhile.
const maxScheduleWait = time.Minute

// gates are two channels of which one is closed: paused while the task must not run, open otherwise.
type gates struct{ paused, open chan struct{} }

func newGates() gates {
	g := gates{make(chan struct{}), make(chan struct{})}
	close(g.open)
	return g
}

// set opens or closes the gates.
func (g *gates) set(pause bool) {
	select {
	case <-g.paused:
		if !pause {
			g.paused = make(chan struct{})
			close(g.open)
		}
	default:
		if pause {
			g.open = make(chan struct{})
			close(g.paused)
		}
	}
}

// pausing is closed while the task must not run.
func (r *Runner) pausing() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pause.paused
}

// resumable is closed while the task may run.
func (r *Runner) resumable() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pause.open
}

// PauseState returns the state of the task's schedule.
func (r *Runner) PauseState() nomad.TaskScheduleState { return r.State().Paused }

// Pause pauses or runs the task against its schedule, or returns it to its schedule. It does not wait until the
// process has started or ended. The state survives a restart of the agent.
func (r *Runner) Pause(s nomad.TaskScheduleState) error {
	if r.isKilled() || r.State().State == nomad.TaskStateDead {
		return fmt.Errorf("pause task %s: %w", r.name, ErrNotRunning)
	}
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if s == nomad.TaskScheduleStateSchedResume {
		s, _ = r.scheduled(time.Now())
		r.setPause(s, "its schedule applies again")
		return nil
	}
	r.setPause(s, "requested by a user")
	return nil
}

// setPause sets the state and emits an event if the task pauses or resumes. The caller holds deciding.
func (r *Runner) setPause(s nomad.TaskScheduleState, why string) {
	before := r.PauseState()
	if s == before {
		return
	}
	var e *nomad.TaskEvent
	switch {
	case s.Pauses() && !before.Pauses():
		e = &nomad.TaskEvent{Type: nomad.TaskPausing, Message: "Task is paused: " + why}
	case !s.Pauses() && before.Pauses():
		e = &nomad.TaskEvent{Type: nomad.TaskRunning, Message: "Task is resumed: " + why}
	}
	r.update(func(state *nomad.TaskState) {
		state.Paused = s
		r.pause.set(s.Pauses()) // under the same mutex
	}, e)
}

// scheduled returns the state of the schedule at a time, and when it changes; the zero time if never.
func (r *Runner) scheduled(now time.Time) (nomad.TaskScheduleState, time.Time) {
	_, task := r.current()
	if task.Schedule == nil || task.Schedule.Cron == nil {
		return nomad.TaskScheduleStateRun, time.Time{}
	}
	c := task.Schedule.Cron
	w, err := cron.ParseWindow(c.Timezone, c.Start, c.End)
	if err != nil { // of servers that accept other schedules, or the client lacks the time zone
		r.log.Error("schedule of task: it runs always", "err", err)
		return nomad.TaskScheduleStateRun, time.Time{}
	}
	open, change := w.At(now)
	if open {
		return nomad.TaskScheduleStateRun, change
	}
	return nomad.TaskScheduleStateSchedPause, change
}

// beginSchedule applies the schedule before the task starts, and follows it until endSchedule.
func (r *Runner) beginSchedule() {
	r.deciding.Lock()
	r.following = r.Phase() != Terminal
	r.deciding.Unlock()
	r.followSchedule()
}

// followSchedule sets the state of the schedule, unless a user has set another, and sets a timer for its next change.
// Most tasks have no schedule and need neither a timer nor a goroutine.
func (r *Runner) followSchedule() {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if !r.following || r.isKilled() {
		return
	}
	s, change := r.scheduled(time.Now())
	if !r.PauseState().Forced() {
		r.setPause(s, "by its schedule")
	}
	r.stopTimer()
	if !change.IsZero() {
		r.due = time.AfterFunc(min(max(time.Until(change), 0), maxScheduleWait), r.followSchedule)
	}
}

// endSchedule ends followSchedule.
func (r *Runner) endSchedule() {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	r.following = false
	r.stopTimer()
}

// stopTimer stops the timer. The caller holds deciding. A timer that has fired calls followSchedule once more.
func (r *Runner) stopTimer() {
	if r.due != nil {
		r.due.Stop()
	}
}
