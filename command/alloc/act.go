package alloc

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

func stopCommand() term.Command {
	return term.Command{
		Name: "alloc stop", Args: "<allocation>", MinArgs: 1, MaxArgs: 1,
		Short: "Stop and reschedule an allocation",
		Setup: func(f *term.Flags) term.Run {
			detach := f.Bool("detach", false, "Print the evaluation's ID and return immediately.")
			detail := f.Detail("Print full IDs.")
			now := f.Bool("no-shutdown-delay", false, "Ignore the shutdown_delay of groups and tasks.")
			return func(ctx context.Context, e *term.Env) error {
				at, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				c, a := at.client, at.alloc
				q := query(ctx, a)
				if *now {
					q.Params = map[string]string{"no_shutdown_delay": "true"}
				}
				resp, err := c.Allocations().Stop(a, q)
				if err != nil {
					return fmt.Errorf("Error stopping allocation: %w", err)
				}
				if *detach {
					e.Println(resp.EvalID)
					return nil
				}
				return monitor.New(e, c, a.Namespace, *detail).Eval(ctx, resp.EvalID)
			}
		},
	}
}

func restartCommand() term.Command {
	return term.Command{
		Name: "alloc restart", Args: "<allocation> [task]", MinArgs: 1, MaxArgs: 2,
		Short: "Restart the tasks of an allocation in place",
		Long:  "Restarts the given task, or every running task. With -all-tasks, it also restarts tasks that have exited.",
		Setup: func(f *term.Flags) term.Run {
			all := f.Bool("all-tasks", false, "Restart all tasks, including tasks that have exited.")
			return onTasks(f, "The `task` to restart.", func(ctx context.Context, at found, task string) (err error) {
				c, a := at.client, at.alloc
				switch {
				case *all && task != "":
					return fmt.Errorf("The -all-tasks option is not allowed when restarting a specific task")
				case *all:
					err = c.Allocations().RestartAllTasks(a, query(ctx, a))
				default:
					err = c.Allocations().Restart(a, task, query(ctx, a))
				}
				if err != nil {
					return fmt.Errorf("Failed to restart allocation: %w", err)
				}
				return nil
			})
		},
	}
}

func signalCommand() term.Command {
	return term.Command{
		Name: "alloc signal", Args: "<allocation> [task]", MinArgs: 1, MaxArgs: 2,
		Short: "Send a signal to the tasks of an allocation",
		Setup: func(f *term.Flags) term.Run {
			signal := f.String("s", "SIGKILL", "The `signal` to send.")
			return onTasks(f, "The `task` to signal. Default: all tasks.", func(ctx context.Context, at found, task string) error {
				if err := at.client.Allocations().Signal(at.alloc, query(ctx, at.alloc), task, *signal); err != nil {
					return fmt.Errorf("Error signalling allocation: %w", err)
				}
				return nil
			})
		},
	}
}

// onTasks declares the flags of a command on one or all tasks of an allocation, and returns the command.
func onTasks(f *term.Flags, usage string, do func(ctx context.Context, at found, task string) error) term.Run {
	name := f.String("task", "", usage)
	f.Bool("verbose", false, "Print full IDs.")
	return func(ctx context.Context, e *term.Env) error {
		at, task, err := target(ctx, e, *name)
		if err != nil {
			return err
		}
		return do(ctx, at, task)
	}
}

// target returns the allocation of the first argument, and the task of the flag or
// of the second argument. An empty task means all tasks.
func target(ctx context.Context, e *term.Env, flag string) (found, string, error) {
	at, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return at, "", err
	}
	name := flag
	if name == "" {
		name = e.Arg(1)
	}
	if name != "" {
		name, err = task(at.alloc, name)
	}
	return at, name, err
}
