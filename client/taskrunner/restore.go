package taskrunner

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// Restore sets the state stored by the previous agent. It must be called before Run, which then
// recovers the process of a stored handle.
func (r *Runner) Restore(t state.Task) {
	r.record.restore(t)
	r.schedule.restore(r.record.state.Paused)
	if t.Local == nil {
		return
	}
	switch {
	case r.record.local.RunComplete || r.record.state.State == nomad.TaskStateDead:
		r.setPhase(Terminal)
	case r.record.local.TaskHandle != nil:
		r.setPhase(Recovering)
	}
}

// Abandon runs the stop hooks of a restored task that will not run. Its process must have
// exited.
func (r *Runner) Abandon(ctx context.Context) {
	if !r.record.local.RunComplete {
		r.runStop(ctx)
	}
}

// Rerun returns a Runner that runs a finished task again. It keeps the hooks' state, such as
// the task's uid, and the events.
func (r *Runner) Rerun(gate <-chan struct{}, why *nomad.TaskEvent) *Runner {
	cfg := r.cfg
	cfg.Gate = gate
	cfg.Alloc, cfg.Task = r.current()
	next := New(cfg)
	next.record.restore(state.Task{State: r.State(), Local: &state.LocalState{Hooks: r.record.local.Hooks}})
	next.schedule.restore(next.record.state.Paused)
	next.record.update(func(s *nomad.TaskState) {
		s.State, s.Failed = nomad.TaskStatePending, false
		s.StartedAt, s.FinishedAt = time.Time{}, time.Time{}
		s.Restarts++
		s.LastRestart = time.Now()
	}, why)
	return next
}

// resume runs the hooks for a recovered process.
func (r *Runner) resume(ctx context.Context) {
	r.try = r.newAttempt(ctx)
	r.listenEvents(r.taskID())
	hookCtx, cancel := r.requests.untilKilled(ctx)
	defer cancel()
	if r.requests.isKilled() {
		return // it is about to be stopped
	}
	r.attachHooks(hookCtx)
	started := r.State().StartedAt
	if started.IsZero() {
		started = time.Now()
	}
	if r.State().State != nomad.TaskStateRunning {
		r.record.update(func(s *nomad.TaskState) {
			s.State = nomad.TaskStateRunning
			s.StartedAt = started
		}, &nomad.TaskEvent{Type: nomad.TaskStarted})
	}
	env := r.env.Build()
	r.runPoststart(hookCtx, env, started)
	if r.env.Build() != env { // values of secrets have come meanwhile
		r.envChanged()
	}
}
