package alloc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/open-nomad/open-nomad/api"
	cmdterm "github.com/open-nomad/open-nomad/command/term"
)

func actionCommand() cmdterm.Command {
	return cmdterm.Command{
		Name: "job action", Alias: []string{"action"}, Args: "<action>", MinArgs: 1, MaxArgs: 1,
		Short: "Run an action of a job in a running task",
		Long: `Runs the command of an action block in the environment of its task. With -group and -task, a random running
allocation of the group is used; with -alloc, that one. The exit code is that of the command, or 1 if
nomad itself fails.

In a terminal, "~." at the beginning of a line closes the session and ends the command.`,
		Setup: func(f *cmdterm.Flags) cmdterm.Run {
			x := &execution{}
			x.declare(f)
			a := &action{execution: x}
			f.StringVar(&a.jobID, "job", "", "The ID of the `job`. Required.")
			f.StringVar(&a.prefix, "alloc", "", "Run the action in the `allocation` with this ID or prefix.")
			f.StringVar(&x.task, "task", "", "The `task` of the action. Required without -alloc, or if the allocation has more than one.")
			f.StringVar(&x.group, "group", "", "Use an allocation of this task `group`. Required without -alloc.")
			return a.run
		},
	}
}

// action is one run of an action.
type action struct {
	*execution
	jobID, prefix string
}

func (a *action) run(ctx context.Context, e *cmdterm.Env) error {
	switch {
	case a.jobID == "":
		return errors.New("A job ID is required: set -job")
	case a.prefix == "" && (a.group == "" || a.task == ""):
		return errors.New("A task group and a task are required without an allocation: set -group and -task, or -alloc")
	}
	find := func() (found, error) { return find(ctx, e, a.prefix) }
	if a.prefix == "" {
		find = func() (found, error) { return a.anyRunning(ctx, e) }
	}
	name := e.Arg(0)
	return a.execute(ctx, e, find, func(s call) (int, error) {
		code, err := s.at.client.Jobs().ActionExec(s.ctx, s.at.alloc, a.jobID, s.task, s.tty, nil, name,
			s.in, s.out, s.err, s.sizes, query(s.ctx, s.at.alloc))
		if err != nil {
			err = fmt.Errorf("Failed to run action %q in task %q: %w", name, s.task, err)
		}
		return code, err
	})
}

// anyRunning returns a random running allocation of the group.
func (a *action) anyRunning(ctx context.Context, e *cmdterm.Env) (found, error) {
	c, err := e.Client()
	if err != nil {
		return found{}, err
	}
	allocs, _, err := c.Jobs().Allocations(a.jobID, false, (&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx))
	if err != nil {
		return found{}, fmt.Errorf("Error querying allocations of job %q: %w", a.jobID, err)
	}
	var running []*api.AllocationListStub
	for _, s := range allocs {
		if s.TaskGroup == a.group && s.ClientStatus == api.AllocClientStatusRunning {
			running = append(running, s)
		}
	}
	if len(running) == 0 {
		return found{}, fmt.Errorf("No running allocations of group %q of job %q found", a.group, a.jobID)
	}
	return read(ctx, c, running[rand.IntN(len(running))])
}
