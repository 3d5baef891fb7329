package taskrunner

import (
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// State returns a copy of the task's state as reported to the servers. Its events are shared
// and never change.
func (r *Runner) State() *nomad.TaskState { return r.record.snapshot() }

// Phase returns the current phase of the task.
func (r *Runner) Phase() Phase {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase
}

// Done is closed when the task is dead and its stop hooks have run.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Usage returns the last sample of the task's resource usage, or nil if it does not run.
func (r *Runner) Usage() *message.TaskResourceUsage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage
}

// Emit adds an event to the task's state.
func (r *Runner) Emit(e *nomad.TaskEvent) { r.record.update(func(*nomad.TaskState) {}, e) }

// setDead marks the task dead. An event with FailsTask marks it failed.
func (r *Runner) setDead(e *nomad.TaskEvent) {
	r.schedule.end()
	failed := e != nil && e.FailsTask
	r.record.update(func(s *nomad.TaskState) {
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
	if cause := r.requests.killCause(); cause != nil {
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

func (r *Runner) setUsage(u *message.TaskResourceUsage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usage = u
}

// WithEvent returns the state of a task that has no runner yet, with an event.
func WithEvent(s *nomad.TaskState, e *nomad.TaskEvent) *nomad.TaskState {
	next := *s
	addEvent(&next, e)
	return &next
}

// SetupFailed returns the state of a task whose allocation could not be prepared.
func SetupFailed(s *nomad.TaskState, err error) *nomad.TaskState {
	next := *s
	next.State, next.Failed, next.FinishedAt = nomad.TaskStateDead, true, time.Now()
	addEvent(&next, &nomad.TaskEvent{Type: nomad.TaskSetupFailure, SetupError: err.Error(), FailsTask: true})
	return &next
}
