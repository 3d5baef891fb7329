package taskhook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Checks runs the checks of the node (check.Set).
type Checks interface {
	service.Checks
	// Attach makes the script checks of an allocation run in a task, until Detach.
	Attach(alloc, task string, exec func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error))
	Detach(alloc, task string)
}

// scriptsHook makes script checks run in the task while its process runs.
type scriptsHook struct {
	checks Checks // nil if the client has none
	alloc  string
	task   string
}

func newScriptsHook(c Config) hook.Hook {
	return &scriptsHook{checks: c.Checks, alloc: c.Alloc.ID, task: c.Task.Name}
}

func (*scriptsHook) Name() string { return "script_checks" }

// Poststart attaches the process. A driver without exec leaves the checks pending.
func (h *scriptsHook) Poststart(_ context.Context, req *TaskPoststartRequest, _ *TaskPoststartResponse) error {
	if h.checks != nil && req.Exec != nil {
		h.checks.Attach(h.alloc, h.task, req.Exec)
	}
	return nil
}

// Exited detaches the process.
func (h *scriptsHook) Exited(context.Context, *TaskExitedRequest, *TaskExitedResponse) error {
	if h.checks != nil {
		h.checks.Detach(h.alloc, h.task)
	}
	return nil
}
