package taskrunner

import (
	"fmt"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// isolate sets what isolates the task as the driver would start it, and the lowest level that it may have: that of
// the task or of the allocation, which its tokens claim. It is an error if the task has less. The client decides: the
// servers know neither the values of references nor what changed on the node since its registration. Nothing isolates a CSI plugin
// that mounts volumes on its node.
func (a *attempt) isolate(cfg *drivers.TaskConfig, env *taskenv.Env) error {
	alloc, task := a.current()
	var i drivers.Isolation // nothing, unless the driver shows more
	var unknown error
	if driver, ok := a.cfg.Driver.(drivers.Isolator); ok {
		config := env.Isolated(task.Config)
		if config == nil {
			config = map[string]any{}
		}
		i, unknown = driver.Isolates(a.owner.User, config)
	}
	if unknown != nil || csi.MountsVolumes(task.CSIPluginConfig) {
		i = drivers.Isolation{}
	}
	i.Devices = i.Devices && len(a.devices) == 0
	for _, name := range []string{task.Isolation, alloc.Isolation[task.Name]} {
		if name == "" {
			continue
		}
		least, err := drivers.ParseLevel(name)
		if err == nil {
			err = i.CheckLevel(least)
		}
		if err != nil && unknown != nil {
			err = fmt.Errorf("%w; driver %q cannot show more: %w", err, task.Driver, unknown)
		}
		if err != nil {
			return &taskhook.Fault{Type: nomad.TaskSetupFailure, Err: fmt.Errorf("task %q: %w", task.Name, err)}
		}
		cfg.Level = max(cfg.Level, least)
	}
	cfg.Isolation = i
	return nil
}

// levelOf returns the level with which a task was started.
func levelOf(cfg *drivers.TaskConfig, h *drivers.TaskHandle) string {
	if h.Lowered != "" {
		return h.Lowered
	}
	return cfg.Isolation.Level().String()
}
