package taskhook

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// LogSinks copies the logs of tasks to the log sinks of the node (logsink.Set).
type LogSinks interface {
	// Follow copies the logs of a task. dir is the directory of the allocation.
	Follow(alloc *nomad.Allocation, task, dir string, sinks []string) error
	// Finish lets the copying end with the logs.
	Finish(alloc, task string)
}

// sinksHook copies the task's logs to the sinks of its logs block. The copying survives restarts of
// the task and of the agent, and goes on after the end of the task until all was accepted.
type sinksHook struct{ c Config }

func newSinksHook(c Config) hook.Hook { return &sinksHook{c} }

func (*sinksHook) Name() string { return "log_sinks" }

func (h *sinksHook) Prestart(_ context.Context, req *TaskPrestartRequest, _ *TaskPrestartResponse) error {
	if err := h.follow(req.Alloc, req.Task); err != nil {
		return &Fault{Type: nomad.TaskFailedValidation, Err: err}
	}
	return nil
}

// Stop also handles a task that ended while no agent ran: its log is copied from the stored position.
func (h *sinksHook) Stop(context.Context, *TaskStopRequest, *TaskStopResponse) error {
	if err := h.follow(h.c.Alloc, h.c.Task); err != nil {
		return err
	}
	if h.c.Sinks != nil {
		h.c.Sinks.Finish(h.c.Alloc.ID, h.c.Task.Name)
	}
	return nil
}

func (h *sinksHook) follow(alloc *nomad.Allocation, task *nomad.Task) error {
	c := task.LogConfig
	if c == nil || len(c.Sinks) == 0 || c.Disabled {
		return nil
	}
	if h.c.Sinks == nil {
		return fmt.Errorf("logs: sinks %q: this node has no log sinks", c.Sinks)
	}
	if err := h.c.Sinks.Follow(alloc, task.Name, h.c.Dir.Path(), c.Sinks); err != nil {
		return fmt.Errorf("logs: sinks %q: %w", c.Sinks, err)
	}
	return nil
}
