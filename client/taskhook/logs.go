package taskhook

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Default log limits of a task, as in Nomad 2.0.
const (
	defaultLogFiles  = 10
	defaultLogSizeMB = 10
)

// logsHook configures the rotation of the task's logs by the supervisor.
type logsHook struct{ none bool }

func newLogsHook(c Config) hook.Hook {
	return &logsHook{none: c.Capabilities.NoLogs}
}

func (*logsHook) Name() string { return "logs" }

func (h *logsHook) Prestart(_ context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	cfg := &drivers.LogConfig{MaxFiles: defaultLogFiles, MaxFileSizeMB: defaultLogSizeMB}
	if c := req.Task.LogConfig; c != nil {
		if c.MaxFiles < 1 || c.MaxFileSizeMB < 1 {
			return &Fault{Type: nomad.TaskFailedValidation, Err: fmt.Errorf(
				"logs: max_files is %d and max_file_size %d: both must be at least 1", c.MaxFiles, c.MaxFileSizeMB)}
		}
		cfg.MaxFiles, cfg.MaxFileSizeMB, cfg.Disabled = c.MaxFiles, c.MaxFileSizeMB, c.Disabled
	}
	cfg.Disabled = cfg.Disabled || h.none
	resp.Log = cfg
	return nil
}
