package allocrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
)

// Sandboxes compares the sandbox of one task with its declared policy or, if task is empty,
// those of all running tasks that have a sandbox.
func (r *Runner) Sandboxes(ctx context.Context, task string) (map[string]*nomad.TaskSandbox, error) {
	out := map[string]*nomad.TaskSandbox{}
	if task != "" {
		t, err := r.task(task)
		if err != nil {
			return nil, err
		}
		out[task], err = t.Sandbox(ctx)
		return out, err
	}
	var last error
	for name, t := range r.running() {
		report, err := t.Sandbox(ctx)
		switch {
		case errors.Is(err, taskrunner.ErrNoSandbox), errors.Is(err, taskrunner.ErrNotRunning):
			last = err // others may have one
		case err != nil:
			return nil, err
		default:
			out[name] = report
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if last == nil {
		last = fmt.Errorf("allocation %s: %w", r.cfg.Alloc.ID, taskrunner.ErrNotRunning)
	}
	return nil, last
}
