package taskhook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Scripts runs the script checks of an allocation in its tasks (check.Set).
type Scripts interface {
	Attach(alloc, task string, exec func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error))
	Detach(alloc, task string)
}

// scriptsHook makes script checks run in the task while its process runs.
type scriptsHook struct {
	scripts Scripts // nil if the client has no checks
	alloc   string
	task    string
}

func newScriptsHook(c Config) hook.Hook {
	return &scriptsHook{scripts: c.Scripts, alloc: c.Alloc.ID, task: c.Task.Name}
}

func (*scriptsHook) Name() string { return "script_checks" }

// Poststart attaches the process. A driver without exec leaves the checks pending.
func (h *scriptsHook) Poststart(_ context.Context, req *TaskPoststartRequest, _ *TaskPoststartResponse) error {
	if h.scripts != nil && req.Exec != nil {
		h.scripts.Attach(h.alloc, h.task, req.Exec)
	}
	return nil
}

// Exited detaches the process.
func (h *scriptsHook) Exited(context.Context, *TaskExitedRequest, *TaskExitedResponse) error {
	if h.scripts != nil {
		h.scripts.Detach(h.alloc, h.task)
	}
	return nil
}
