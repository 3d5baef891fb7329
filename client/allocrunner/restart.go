package allocrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
)

// restartReason is the reason in the events of restarts made here.
const restartReason = "User requested task to restart"

// unhealthyTimeout limits the wait for tasks that are restarted because of a check. They restart in any case.
const unhealthyTimeout = 10 * time.Second

// Restart restarts one task or, if task is empty, all running ones.
func (r *Runner) Restart(ctx context.Context, task string) error {
	if task != "" {
		t, err := r.task(task)
		if err != nil {
			return err
		}
		return restartOne(ctx, t)
	}
	live := r.running()
	if len(live) == 0 {
		return fmt.Errorf("restart allocation %s: %w", r.cfg.Alloc.ID, taskrunner.ErrNotRunning)
	}
	r.preTaskRestart(ctx)
	return restartEach(live, func(t *taskrunner.Runner) error { return restartOne(ctx, t) })
}

// RestartUnhealthy restarts one task or, if task is empty, all running ones. The restart policy counts it as a
// failure of the task.
func (r *Runner) RestartUnhealthy(ctx context.Context, task, reason string) error {
	live := r.running()
	if task != "" {
		t := live[task]
		if t == nil {
			return fmt.Errorf("restart task %q of allocation %s: %w", task, r.cfg.Alloc.ID, taskrunner.ErrNotRunning)
		}
		live = map[string]*taskrunner.Runner{task: t}
	} else {
		r.preTaskRestart(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, unhealthyTimeout)
	defer cancel()
	return restartEach(live, func(t *taskrunner.Runner) error {
		return t.RestartFailed(ctx, &nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: reason})
	})
}

func restartOne(ctx context.Context, t *taskrunner.Runner) error {
	return t.Restart(ctx, &nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: restartReason})
}

// restartEach restarts tasks in parallel. A task that has exited meanwhile, or is already
// restarting, is skipped.
func restartEach(live map[string]*taskrunner.Runner, restart func(*taskrunner.Runner) error) error {
	errs := make(chan error, len(live))
	for _, t := range live {
		go func() { errs <- restart(t) }()
	}
	var all []error
	for range live {
		if err := <-errs; !errors.Is(err, taskrunner.ErrNotRunning) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// RestartAll restarts the running tasks and runs the dead ones again, in lifecycle order. A
// stopping or terminal allocation can't be restarted.
func (r *Runner) RestartAll(ctx context.Context) error {
	live := r.running()
	r.preTaskRestart(ctx)
	done := make(chan error, 1)
	select {
	case r.reruns <- done:
	case <-r.over:
		return fmt.Errorf("restart allocation %s: %w", r.cfg.Alloc.ID, taskrunner.ErrNotRunning)
	case <-ctx.Done():
		return fmt.Errorf("restart allocation %s: %w", r.cfg.Alloc.ID, ctx.Err())
	}
	if err := <-done; err != nil {
		return err
	}
	if err := r.prestarted(ctx); err != nil {
		return err
	}
	return restartEach(live, func(t *taskrunner.Runner) error { return restartOne(ctx, t) })
}

// prestarted waits until the prestart tasks that are not sidecars are dead again.
func (r *Runner) prestarted(ctx context.Context) error {
	for _, task := range r.group.Tasks {
		if hookOf(task) != nomad.TaskLifecycleHookPrestart || task.Lifecycle.Sidecar {
			continue
		}
		t, err := r.task(task.Name)
		if err != nil {
			return err
		}
		select {
		case <-t.Done():
		case <-ctx.Done():
			return fmt.Errorf("restart allocation %s: wait for task %s: %w", r.cfg.Alloc.ID, task.Name, ctx.Err())
		}
	}
	return nil
}

// rerun creates new runners for the dead tasks, except poststop tasks. The loop calls it.
func (r *Runner) rerun(ctx context.Context, work *sync.WaitGroup) error {
	r.mu.Lock()
	ending := r.stopping != nil || len(r.killing) > 0
	tasks := r.tasks
	r.mu.Unlock()
	if ending {
		return fmt.Errorf("restart allocation %s: it is stopping: %w", r.cfg.Alloc.ID, taskrunner.ErrNotRunning)
	}
	next := map[string]*taskrunner.Runner{}
	for _, task := range r.group.Tasks {
		t := tasks[task.Name]
		next[task.Name] = t
		select {
		case <-t.Done():
		default:
			continue
		}
		if poststop(task) {
			continue
		}
		gate := make(chan struct{})
		r.gates[task.Name] = gate
		next[task.Name] = t.Rerun(gate, &nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: restartReason})
	}
	r.mu.Lock()
	r.tasks = next
	r.mu.Unlock()
	for name, t := range next {
		if t != tasks[name] {
			r.goRun(ctx, work, name, t)
		}
	}
	return nil
}
