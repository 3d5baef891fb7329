package taskhook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// directoryHook creates the task's directory for its user. After the task's end it removes the
// secrets; the rest is removed with the allocation.
type directoryHook struct {
	alloc     *allocdir.Dir
	task      string
	isolation drivers.FSIsolation
	control   Control
}

func newDirectoryHook(c Config) hook.Hook {
	return &directoryHook{alloc: c.Dir, task: c.Task.Name, isolation: c.Capabilities.FSIsolation, control: c.Control}
}

func (*directoryHook) Name() string { return "directories" }

func (h *directoryHook) Prestart(_ context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if req.Dir == nil && !req.Running {
		h.control.Emit(&nomad.TaskEvent{Type: nomad.TaskSetup, Message: nomad.TaskBuildingTaskDir})
	}
	cfg := allocdir.TaskConfig{
		Name: req.Task.Name, UID: req.Owner.UID, GID: req.Owner.GID,
		Private: h.isolation == drivers.FSIsolationUnveil && req.Owner.UID >= 0,
		Bound:   h.isolation.OwnRoot(),
	}
	if req.Task.Resources != nil {
		cfg.SecretsMB = req.Task.Resources.SecretsMB
	}
	dir, err := h.alloc.BuildTask(cfg)
	if err != nil {
		return setupFault(err)
	}
	resp.Dir = dir
	resp.Paths = &taskenv.Paths{Alloc: dir.SharedPath(), Task: dir.LocalPath(), Secrets: dir.SecretsPath()}
	if h.isolation.OwnRoot() {
		resp.Paths = &taskenv.Paths{Alloc: "/alloc", Task: "/local", Secrets: "/secrets"}
	}
	return nil
}

func (h *directoryHook) Stop(_ context.Context, req *TaskStopRequest, _ *TaskStopResponse) error {
	if req.Dir == nil { // no directory in this agent, but one that was killed may have created it
		return h.alloc.ForgetTask(h.task)
	}
	return req.Dir.Forget()
}
