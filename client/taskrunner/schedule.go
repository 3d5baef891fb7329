package taskrunner

import (
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/cron"
	"github.com/open-nomad/open-nomad/nomad"
)

// maxScheduleWait is the longest time between two evaluations of a schedule, since the clock can be
// set meanwhile.
const maxScheduleWait = time.Minute

// schedule pauses and resumes a task by its schedule block, or as a user requests. Most tasks have no
// such block, and need neither a timer nor a goroutine.
//
//	run ◀──────window closes, opens──────▶ scheduled_pause
//	 ▲──request──▶ force_run, force_pause ◀──request──▲
type schedule struct {
	log *slog.Logger
	// changed stores a new state, and an event unless it is nil. It is called under mu, so that the
	// schedule never replaces a request of a user.
	changed func(nomad.TaskScheduleState, *nomad.TaskEvent)

	mu     sync.Mutex
	block  *nomad.TaskSchedule // of the newest version of the task, may be nil
	state  nomad.TaskScheduleState
	gates  gates // follow state
	begun  bool  // the schedule is followed
	ended  bool
	change *time.Timer // the next one of the schedule, may be nil
}

// gates are two channels of which one is closed: paused while the task must not run, open otherwise.
type gates struct{ paused, open chan struct{} }

func newSchedule(log *slog.Logger, block *nomad.TaskSchedule, changed func(nomad.TaskScheduleState, *nomad.TaskEvent)) *schedule {
	s := &schedule{log: log, changed: changed, block: block, gates: gates{make(chan struct{}), make(chan struct{})}}
	close(s.gates.open)
	return s
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
func (s *schedule) pausing() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gates.paused
}

// resumable is closed while the task may run.
func (s *schedule) resumable() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gates.open
}

// restore sets the state that an earlier Runner has stored.
func (s *schedule) restore(state nomad.TaskScheduleState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
	s.gates.set(state.Pauses())
}

// request sets a state until the next request. TaskScheduleStateSchedResume returns to the schedule.
func (s *schedule) request(state nomad.TaskScheduleState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == nomad.TaskScheduleStateSchedResume {
		state, _ = s.at(time.Now())
		s.set(state, "its schedule applies again")
		return
	}
	s.set(state, "requested by a user")
}

// begin applies the schedule before the task starts, and follows it until end.
func (s *schedule) begin() {
	s.mu.Lock()
	s.begun = true
	s.mu.Unlock()
	s.follow()
}

// update replaces the block by that of a newer version of the task.
func (s *schedule) update(block *nomad.TaskSchedule) {
	s.mu.Lock()
	s.block = block
	s.mu.Unlock()
	s.follow()
}

// end is called when the task is killed or dead. The schedule is not followed again.
func (s *schedule) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.stopTimer()
}

// follow sets the state of the schedule, unless a user has set another, and a timer for its next change.
func (s *schedule) follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun || s.ended {
		return
	}
	state, change := s.at(time.Now())
	if !s.state.Forced() {
		s.set(state, "by its schedule")
	}
	s.stopTimer()
	if !change.IsZero() {
		s.change = time.AfterFunc(min(max(time.Until(change), 0), maxScheduleWait), s.follow)
	}
}

// at returns the state of the schedule at a time, and when it changes; the zero time if never.
func (s *schedule) at(now time.Time) (nomad.TaskScheduleState, time.Time) {
	if s.block == nil || s.block.Cron == nil {
		return nomad.TaskScheduleStateRun, time.Time{}
	}
	c := s.block.Cron
	w, err := cron.ParseWindow(c.Timezone, c.Start, c.End)
	if err != nil { // of servers that accept other schedules, or the client lacks the time zone
		s.log.Error("schedule of task: it runs always", "err", err)
		return nomad.TaskScheduleStateRun, time.Time{}
	}
	open, change := w.At(now)
	if open {
		return nomad.TaskScheduleStateRun, change
	}
	return nomad.TaskScheduleStateSchedPause, change
}

// set sets the state, with an event if the task pauses or resumes. The caller holds mu.
func (s *schedule) set(state nomad.TaskScheduleState, why string) {
	if state == s.state {
		return
	}
	var e *nomad.TaskEvent
	switch {
	case state.Pauses() && !s.state.Pauses():
		e = &nomad.TaskEvent{Type: nomad.TaskPausing, Message: "Task is paused: " + why}
	case !state.Pauses() && s.state.Pauses():
		e = &nomad.TaskEvent{Type: nomad.TaskRunning, Message: "Task is resumed: " + why}
	}
	s.state = state
	s.changed(state, e) // before the task pauses or starts
	s.gates.set(state.Pauses())
}

// stopTimer stops the timer. The caller holds mu. A timer that has fired calls follow once more.
func (s *schedule) stopTimer() {
	if s.change != nil {
		s.change.Stop()
	}
}
