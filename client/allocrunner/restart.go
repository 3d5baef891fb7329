package allocrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
)

// restartReason is why tasks restart here.
const restartReason = "a user asked for a restart"

// Restart restarts one task, or all that run when task is empty.
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
	return restartEach(ctx, live)
}

func restartOne(ctx context.Context, t *taskrunner.Runner) error {
	return t.Restart(ctx, &nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: restartReason})
}

// restartEach restarts tasks beside each other. One that has ended meanwhile, or is
// between two runs already, is left to its fate.
func restartEach(ctx context.Context, live map[string]*taskrunner.Runner) error {
	errs := make(chan error, len(live))
	for _, t := range live {
		go func() { errs <- restartOne(ctx, t) }()
	}
	var all []error
	for range live {
		if err := <-errs; !errors.Is(err, taskrunner.ErrNotRunning) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// RestartAll restarts the tasks that run and runs those again that have ended,
// in the order of their lifecycle. An allocation that is over, or on its way
// there, can't be restarted.
func (r *Runner) RestartAll(ctx context.Context) error {
	live := r.running()
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
	return restartEach(ctx, live)
}

// prestarted waits until the tasks that others must wait for have ended again.
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

// rerun runs the tasks again that have ended, poststop ones excepted. It is
// called by the loop.
func (r *Runner) rerun(ctx context.Context, work *sync.WaitGroup) error {
	r.mu.Lock()
	ending := r.stopping != nil || len(r.killing) > 0
	tasks := r.tasks
	r.mu.Unlock()
	if ending {
		return fmt.Errorf("restart allocation %s: it is ending: %w", r.cfg.Alloc.ID, taskrunner.ErrNotRunning)
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
		next[task.Name] = t.Again(gate, &nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: restartReason})
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
