package taskrunner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Exec runs a program in the running task, with the environment that a new start of the task
// would get.
func (r *Runner) Exec(ctx context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	id := r.taskID()
	if id == "" {
		return nil, fmt.Errorf("run a program in task %s: %w", r.name, ErrNotRunning)
	}
	driver, ok := r.cfg.Driver.(drivers.Execer)
	if !ok || !r.cfg.Driver.Capabilities().Exec {
		return nil, fmt.Errorf("run a program in task %s: driver %s: %w", r.name, r.cfg.Driver.Name(), drivers.ErrNoExec)
	}
	o.Env = r.env.Build().Map()
	exit, err := driver.ExecTask(ctx, id, o)
	if errors.Is(err, drivers.ErrTaskNotFound) {
		err = ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("run a program in task %s: %w", r.name, err)
	}
	return exit, nil
}

// maxHookOutput is the maximum command output returned to a hook.
const maxHookOutput = 64 << 10

// execer returns the function with which hooks run commands in the task. It is nil if the
// driver does not support exec.
func (r *Runner) execer() taskhook.Exec {
	if _, ok := r.cfg.Driver.(drivers.Execer); !ok || !r.cfg.Driver.Capabilities().Exec {
		return nil
	}
	return func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error) {
		out := &firstbytes.Buffer{Limit: maxHookOutput}
		exit, err := r.Exec(ctx, &drivers.ExecOptions{Command: command, Stdin: strings.NewReader(""), Stdout: out, Stderr: out})
		return out.Bytes(), exit, err
	}
}
