package taskrunner

import (
	"fmt"

	"github.com/open-nomad/open-nomad/client/taskenv"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// checkPrivilege returns a fault if the driver must not run the task with, or without, privilege. It
// repeats what the servers have checked, with the interpolated config block and the configuration of
// the driver.
func (r *Runner) checkPrivilege(task *nomad.Task, env *taskenv.Env) error {
	block, err := env.Block(task.Config)
	if err == nil {
		err = drivers.PrivilegeOf(r.cfg.Driver).Check(task.Driver, task.Privileged, block)
	}
	if err != nil {
		return &taskhook.Fault{Type: nomad.TaskFailedValidation, Err: fmt.Errorf("task %q: %w", task.Name, err)}
	}
	return nil
}
