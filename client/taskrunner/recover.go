package taskrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Limits for the recovery of a process.
const (
	recoverPatience = 30 * time.Second // per call of the driver
	recoverQuiet    = 2 * time.Second  // after which a call without an answer is reported
	recoverAgain    = 250 * time.Millisecond
	recoverAgainMax = 30 * time.Second
)

// recover asks the driver to recover the process of the stored handle. It returns when the
// driver has recovered it or does not have the task. If ctx ends first, handle and state are
// unchanged.
func (r *Runner) recover(ctx context.Context) (Move, error) {
	handle := r.record.local.TaskHandle
	var failed, stopping bool
	report := func(err error) {
		if !failed {
			failed = true
			r.Emit(&nomad.TaskEvent{Type: nomad.TaskRestoreFailed, Message: fmt.Sprintf("recover task: %v: retrying", err)})
		}
	}
	for wait := recoverAgain; ; wait = min(2*wait, recoverAgainMax) {
		err := r.recoverOnce(ctx, handle, report)
		switch {
		case err == nil:
			r.setID(handle.TaskID)
			if failed {
				r.Emit(&nomad.TaskEvent{Type: nomad.TaskDriverMessage, DriverMessage: "task recovered"})
			}
			return Recovered, nil
		case errors.Is(err, drivers.ErrTaskNotFound):
			return r.lost(err), nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
		r.asked.close()
		r.log.Warn("recover task", "err", err)
		report(err)
		killed := r.requests.killed
		if r.requests.isKilled() {
			if r.stopByID(ctx, handle.TaskID, stopping) {
				return r.lost(err), nil
			}
			stopping, killed = true, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-killed:
		case <-time.After(wait):
		}
	}
}

// errSilent is reported for a driver that has not answered yet.
var errSilent = fmt.Errorf("the driver has not answered for %v", recoverQuiet)

// recoverOnce calls the driver once, and reports errSilent if the answer is late. A driver that does not answer in time
// may still have the task.
func (r *Runner) recoverOnce(ctx context.Context, h *drivers.TaskHandle, report func(error)) error {
	ctx, cancel := context.WithTimeout(ctx, recoverPatience)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- r.cfg.Driver.RecoverTask(ctx, h) }()
	late := time.NewTimer(recoverQuiet)
	defer late.Stop()
	select {
	case err := <-answer:
		return err
	case <-late.C:
		report(errSilent)
		return <-answer
	}
}

// Asked is closed after the first attempt of the driver to recover the process of a stored handle.
// Without a stored handle it is closed at once. Recovery may continue after that.
func (r *Runner) Asked() <-chan struct{} { return r.asked.done }

// lost records that the process does not exist; err is the reason.
func (r *Runner) lost(err error) Move {
	if r.State().State != nomad.TaskStateRunning {
		// The agent died between the commit and the start.
		r.log.Debug("the task was stored but never started", "err", err)
		r.record.local.TaskHandle = nil
		return Unstarted
	}
	if !r.requests.isKilled() {
		r.Emit(&nomad.TaskEvent{Type: nomad.TaskRestoreFailed, Message: err.Error()})
	}
	// The agent may have ended while it stopped the process of a paused task.
	r.last = outcome{err: &drivers.RecoverableError{Err: err}, paused: r.PauseState().Pauses()}
	return Lost
}

// stopByID stops a process that was not recovered and reports whether it has exited. A driver
// may be able to stop a task whose handle it cannot read.
func (r *Runner) stopByID(ctx context.Context, id string, again bool) bool {
	_, task := r.current()
	timeout := r.killTimeout(task)
	if !again {
		if _, err := r.awaitPreKill(ctx, nil); err != nil {
			return false
		}
		if _, err := r.shutdownDelay(ctx, nil); err != nil {
			return false
		}
		r.Emit(r.killingEvent(timeout))
	}
	err := r.cfg.Driver.StopTask(ctx, id, timeout, task.KillSignal)
	if err == nil || errors.Is(err, drivers.ErrTaskNotFound) {
		return true
	}
	if ctx.Err() == nil {
		r.log.Warn("stop task that was not recovered", "err", err)
	}
	return false
}
