package taskrunner

import (
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// State returns a copy of the task's state as reported to the servers. Its events are shared
// and never change.
func (r *Runner) State() *nomad.TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	return &s
}

// Phase returns the current phase of the task.
func (r *Runner) Phase() Phase {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase
}

// Done is closed when the task is dead and its stop hooks have run.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Usage returns the last sample of the task's resource usage, or nil if it does not run.
func (r *Runner) Usage() *nomad.TaskResourceUsage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage
}

// Emit adds an event to the task's state.
func (r *Runner) Emit(e *nomad.TaskEvent) { r.update(func(*nomad.TaskState) {}, e) }

// update changes the state, adds the event unless it is nil, queues the state for storage and
// calls Config.Changed.
func (r *Runner) update(change func(*nomad.TaskState), e *nomad.TaskEvent) {
	r.mu.Lock()
	change(&r.state)
	if e != nil {
		addEvent(&r.state, e)
	}
	s := r.state
	put := r.cfg.Store.PutTaskLater
	if s.State == nomad.TaskStatePending && !s.Paused.Pauses() {
		put = r.cfg.Store.PutTaskWithNext // stored with the start or the end that follows
	}
	// Queued under the mutex, so that an older state never replaces a newer one.
	err := put(r.cfg.Alloc.ID, r.name, state.Task{State: &s})
	r.mu.Unlock()
	if err != nil {
		r.log.Warn("store state of task", "err", err)
	}
	r.cfg.Changed()
}

// setDead marks the task dead. An event with FailsTask marks it failed.
func (r *Runner) setDead(e *nomad.TaskEvent) {
	failed := e != nil && e.FailsTask
	r.update(func(s *nomad.TaskState) {
		s.State = nomad.TaskStateDead
		s.Failed = failed
		s.FinishedAt = time.Now()
		s.Paused = nomad.TaskScheduleStateRun
	}, e)
	count(r, "failed", failed)
	count(r, "complete", !failed)
}

// killedEvent returns the event of a killed task.
func (r *Runner) killedEvent() *nomad.TaskEvent {
	e := &nomad.TaskEvent{Type: nomad.TaskKilled}
	if cause := r.killCause(); cause != nil {
		e.FailsTask, e.KillReason = cause.FailsTask, cause.KillReason
	}
	return e
}

// terminatedEvent returns the event of a process exit.
func terminatedEvent(exit *drivers.ExitResult) *nomad.TaskEvent {
	e := &nomad.TaskEvent{Type: nomad.TaskTerminated, ExitCode: exit.ExitCode, Signal: exit.Signal}
	e.Details = map[string]string{}
	if exit.OOMKilled {
		e.Details["oom_killed"] = "true"
	}
	if exit.ForksDenied > 0 {
		e.Details["forks_denied"] = strconv.FormatUint(exit.ForksDenied, 10)
	}
	if exit.Err != nil {
		e.Message = exit.Err.Error()
	}
	return e
}

func (r *Runner) isKilled() bool {
	select {
	case <-r.killed:
		return true
	default:
		return false
	}
}

func (r *Runner) killCause() *nomad.TaskEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killEvent
}

func (r *Runner) current() (*nomad.Allocation, *nomad.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alloc, r.task
}

func (r *Runner) taskID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

func (r *Runner) setID(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id = id
}

func (r *Runner) setPhase(p Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = p
}

func (r *Runner) setUsage(u *nomad.TaskResourceUsage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usage = u
}

// SetupFailed returns the state of a task whose allocation could not be prepared.
func SetupFailed(s *nomad.TaskState, err error) *nomad.TaskState {
	next := *s
	next.State, next.Failed, next.FinishedAt = nomad.TaskStateDead, true, time.Now()
	addEvent(&next, &nomad.TaskEvent{Type: nomad.TaskSetupFailure, SetupError: err.Error(), FailsTask: true})
	return &next
}
