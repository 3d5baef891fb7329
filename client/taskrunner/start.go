package taskrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// errPaused is returned by start for a task that was paused while its hooks prepared it, such as while they waited for a token.
var errPaused = errors.New("task is paused")

// start runs the prestart hooks and starts the process with the driver.
func (r *Runner) start(ctx context.Context) error {
	hookCtx, cancel := r.requests.untilKilled(ctx)
	defer cancel()
	if err := r.runPrestart(hookCtx); err != nil {
		return err
	}
	select {
	case <-r.schedule.pausing():
		return errPaused
	default:
	}
	cfg, env, err := r.try.taskConfig()
	if err != nil {
		return err
	}
	if err := r.try.isolate(cfg, env); err != nil {
		return err
	}
	driver := r.cfg.Driver
	// Stored before the start, so that a later agent finds the process and its user.
	r.record.local.TaskHandle = &drivers.TaskHandle{Driver: driver.Name(), TaskID: cfg.ID}
	if err := r.record.storeLocal(); err != nil {
		return &drivers.RecoverableError{Err: fmt.Errorf("store state of task %s: %w", r.name, err)}
	}
	r.listenEvents(cfg.ID)
	// Not cancelled: a process that started despite a cancellation would have no owner.
	handle, err := driver.StartTask(context.WithoutCancel(ctx), cfg)
	if err != nil {
		r.record.local.TaskHandle = nil
		return &taskhook.Fault{Type: nomad.TaskDriverFailure, Err: err}
	}
	r.record.local.TaskHandle, r.record.local.DriverNetwork = handle, handle.Network
	if err := r.record.storeLocalLater(); err != nil {
		r.log.Warn("store task handle", "err", err)
	}
	r.running(hookCtx, cfg.ID, env, levelOf(cfg, handle))
	return nil
}

// running marks the task as running and runs the poststart hooks.
func (r *Runner) running(ctx context.Context, id string, env *taskenv.Env, level string) {
	now := time.Now()
	r.setID(id)
	r.record.update(func(s *nomad.TaskState) {
		s.State = nomad.TaskStateRunning
		s.StartedAt = now
		s.Isolation = level
	}, &nomad.TaskEvent{Type: nomad.TaskStarted})
	count(r, "running", true)
	r.runPoststart(ctx, env, now)
}

// emitFault emits the event of a failed start.
func (r *Runner) emitFault(err error) {
	var fault *taskhook.Fault
	if !errors.As(err, &fault) {
		r.Emit(&nomad.TaskEvent{Type: nomad.TaskHookFailed, Message: err.Error()})
		return
	}
	e := fault.Event()
	if fault.Type == nomad.TaskDriverFailure {
		e.DriverError, e.Message = fault.Error(), ""
	}
	r.Emit(e)
}
