package taskrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	// defaultMaxKill limits kill_timeout if the client sets no limit.
	defaultMaxKill = 30 * time.Second
	// stopAgain is how long to wait for the exit of a stopped process before the driver is
	// called again.
	stopAgain = 5 * time.Second
)

// Kill stops the task permanently and waits until it is done or ctx ends. An event with
// FailsTask marks the task as failed. A second Kill only waits.
func (r *Runner) Kill(ctx context.Context, e *nomad.TaskEvent) error {
	if r.requests.setCause(e) {
		if e.Type != nomad.TaskKilling && r.Phase() != Terminal {
			r.Emit(e)
		}
		close(r.requests.killed) // cancels the contexts of all other hooks
		r.schedule.end()
		r.preKill(ctx, &taskhook.TaskPreKillRequest{Event: e, Final: true})
		close(r.requests.preKilled)
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill task %s: %w", r.name, ctx.Err())
	}
}

// awaitPreKill waits for the pre-kill hooks. An exit ends the wait.
func (r *Runner) awaitPreKill(ctx context.Context, exits <-chan *drivers.ExitResult) (*drivers.ExitResult, error) {
	select {
	case <-r.requests.preKilled:
		return nil, nil
	case exit := <-exits:
		return exit, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Restart stops the running process. The task starts again at once, and the restart is not
// counted against the restart policy. Restart returns when the process has exited.
func (r *Runner) Restart(ctx context.Context, e *nomad.TaskEvent) error {
	if r.taskID() == "" && r.Phase() != Restarting {
		return fmt.Errorf("restart task %s: %w", r.name, ErrNotRunning)
	}
	return r.requestRestart(ctx, restartRequest{event: e, done: make(chan error, 1)})
}

// RestartFailed stops the running process as after a failure: the restart policy decides whether and when the task
// starts again. It returns when the process has exited.
func (r *Runner) RestartFailed(ctx context.Context, e *nomad.TaskEvent) error {
	if r.taskID() == "" {
		return fmt.Errorf("restart task %s: %w", r.name, ErrNotRunning)
	}
	return r.requestRestart(ctx, restartRequest{event: e, failed: true, done: make(chan error, 1)})
}

func (r *Runner) requestRestart(ctx context.Context, req restartRequest) error {
	if r.requests.isKilled() { // an event would announce a restart that does not come
		return fmt.Errorf("restart task %s: %w", r.name, ErrNotRunning)
	}
	r.Emit(req.event)
	select {
	case r.requests.restarts <- req:
	case <-r.done:
		return fmt.Errorf("restart task %s: %w", r.name, ErrNotRunning)
	case <-r.requests.killed:
		return fmt.Errorf("restart task %s: %w", r.name, ErrNotRunning)
	case <-ctx.Done():
		return fmt.Errorf("restart task %s: %w", r.name, ctx.Err())
	}
	select {
	case err := <-req.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("restart task %s: %w", r.name, ctx.Err())
	}
}

// Signal sends a signal by name to the running task.
func (r *Runner) Signal(e *nomad.TaskEvent, signal string) error {
	id := r.taskID()
	if id == "" {
		return fmt.Errorf("signal task %s: %w", r.name, ErrNotRunning)
	}
	err := r.cfg.Driver.SignalTask(id, signal)
	if errors.Is(err, drivers.ErrTaskNotFound) {
		err = ErrNotRunning // the process has ended, and the loop has not noticed yet
	}
	if err != nil {
		return fmt.Errorf("signal task %s: %w", r.name, err)
	}
	r.Emit(e)
	return nil
}

// SetEnv sets a hook's environment variables for later starts.
func (r *Runner) SetEnv(hook string, env map[string]string) { r.env.SetHook(hook, env) }

// SetSecrets implements taskhook.Control.
func (r *Runner) SetSecrets(values map[string]string) {
	r.env.SetSecrets(values)
	r.envChanged()
}

// Update applies a newer version of the allocation, with changes to the task that need no new
// process. It does not wait: RunUpdateHooks runs the hooks.
func (r *Runner) Update(a *nomad.Allocation, t *nomad.Task) {
	r.mu.Lock()
	r.alloc, r.task = a, t
	r.mu.Unlock()
	if skip := a.DesiredTransition.NoShutdownDelay; skip != nil && *skip {
		r.requests.skipDelay.close()
	}
	r.schedule.update(t.Schedule)
	r.env.SetAlloc(a, t)
}

// stop stops the running process: first the shutdown delay, then the kill signal, then SIGKILL
// after the kill timeout.
func (r *Runner) stop(ctx context.Context, exits <-chan *drivers.ExitResult) (*drivers.ExitResult, error) {
	if exit, err := r.shutdownDelay(ctx, exits); exit != nil || err != nil {
		return exit, err
	}
	_, task := r.current()
	timeout := r.killTimeout(task)
	r.Emit(r.killingEvent(timeout))
	err := r.cfg.Driver.StopTask(ctx, r.taskID(), timeout, task.KillSignal)
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r.Emit(&nomad.TaskEvent{Type: nomad.TaskKilling, KillError: err.Error()})
		}
		select {
		case exit := <-exits:
			return exit, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(stopAgain):
		}
		err = r.cfg.Driver.DestroyTask(r.taskID(), true)
	}
}

func (r *Runner) killingEvent(timeout time.Duration) *nomad.TaskEvent {
	event := &nomad.TaskEvent{Type: nomad.TaskKilling, KillTimeout: timeout}
	if cause := r.requests.killCause(); cause != nil {
		event.KillReason = cause.KillReason
	}
	return event
}

// shutdownDelay waits before the process is stopped. An exit ends the wait.
func (r *Runner) shutdownDelay(ctx context.Context, exits <-chan *drivers.ExitResult) (*drivers.ExitResult, error) {
	_, task := r.current()
	if task.ShutdownDelay <= 0 || r.requests.killCause() == nil {
		return nil, nil // restarts have no shutdown delay
	}
	select {
	case <-r.requests.skipDelay.done:
		r.Emit(&nomad.TaskEvent{Type: nomad.TaskSkippingShutdownDelay})
		return nil, nil
	default:
	}
	r.Emit(DelayEvent(task.ShutdownDelay))
	timer := time.NewTimer(task.ShutdownDelay)
	defer timer.Stop()
	select {
	case exit := <-exits:
		return exit, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.requests.skipDelay.done:
	case <-timer.C:
	}
	return nil, nil
}

// killTimeout returns the task's kill_timeout, limited by the client.
func (r *Runner) killTimeout(task *nomad.Task) time.Duration {
	timeout, limit := task.KillTimeout, r.cfg.MaxKillTimeout
	if timeout <= 0 {
		timeout = nomad.DefaultKillTimeout
	}
	if limit <= 0 {
		limit = defaultMaxKill
	}
	return min(timeout, limit)
}
