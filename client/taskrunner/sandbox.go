package taskrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// ErrNoSandbox means that the driver of a task does not support comparing sandboxes.
var ErrNoSandbox = errors.New("the driver does not support sandbox comparison")

// Sandbox compares the running task's sandbox with its declared policy.
func (r *Runner) Sandbox(ctx context.Context) (*message.TaskSandbox, error) {
	driver, ok := r.cfg.Driver.(drivers.Sandboxer)
	if !ok {
		return nil, fmt.Errorf("task %s: driver %s: %w", r.name, r.cfg.Driver.Name(), ErrNoSandbox)
	}
	id := r.taskID()
	if id == "" {
		return nil, fmt.Errorf("sandbox of task %s: %w", r.name, ErrNotRunning)
	}
	report, err := driver.Sandbox(ctx, id)
	if errors.Is(err, drivers.ErrTaskNotFound) {
		err = ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox of task %s: %w", r.name, err)
	}
	out := &message.TaskSandbox{PID: report.PID, Level: report.Level, Explain: report.Explain}
	if level := r.State().Isolation; level != "" { // that of the task, which its config may lower
		out.Level = level
	}
	for _, l := range report.Layers {
		out.Layers = append(out.Layers, message.SandboxLayer(l))
	}
	return out, nil
}
