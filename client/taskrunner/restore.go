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
	if t.State != nil {
		r.state = *t.State
		r.pause.set(r.state.Paused.Pauses())
	}
	if t.Local == nil {
		return
	}
	r.local = *t.Local
	if r.local.Hooks == nil {
		r.local.Hooks = map[string]*state.HookState{}
	}
	switch {
	case r.local.RunComplete || r.state.State == nomad.TaskStateDead:
		r.setPhase(Terminal)
	case r.local.TaskHandle != nil:
		r.setPhase(Recovering)
	}
}

// Abandon runs the stop hooks of a restored task that will not run. Its process must have
// exited.
func (r *Runner) Abandon(ctx context.Context) {
	if !r.local.RunComplete {
		r.runStop(ctx)
	}
}

// Again returns a Runner that runs a finished task again. It keeps the hooks' state, such as
// the task's uid, and the events.
func (r *Runner) Again(gate <-chan struct{}, why *nomad.TaskEvent) *Runner {
	cfg := r.cfg
	cfg.Gate = gate
	cfg.Alloc, cfg.Task = r.current()
	next := New(cfg)
	next.local.Hooks = r.local.Hooks
	next.state = *r.State()
	next.pause.set(next.state.Paused.Pauses())
	next.update(func(s *nomad.TaskState) {
		s.State, s.Failed = nomad.TaskStatePending, false
		s.StartedAt, s.FinishedAt = time.Time{}, time.Time{}
		s.Restarts++
		s.LastRestart = time.Now()
	}, why)
	return next
}

// resume runs the hooks for a recovered process.
func (r *Runner) resume(ctx context.Context) {
	r.resumed = false
	r.try = r.newAttempt(ctx)
	r.listenEvents(r.taskID())
	hookCtx, cancel := r.untilKilled(ctx)
	defer cancel()
	if r.isKilled() {
		return // it is about to be stopped
	}
	r.attachHooks(hookCtx)
	started := r.State().StartedAt
	if started.IsZero() {
		started = time.Now()
	}
	if r.State().State != nomad.TaskStateRunning {
		r.update(func(s *nomad.TaskState) {
			s.State = nomad.TaskStateRunning
			s.StartedAt = started
		}, &nomad.TaskEvent{Type: nomad.TaskStarted})
	}
	r.runPoststart(hookCtx, r.env.Build(), started)
}
