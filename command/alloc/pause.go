package alloc

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/command/term"
)

func pauseCommand() term.Command {
	return term.Command{
		Name: "alloc pause", Args: "<allocation> [task]", MinArgs: 1, MaxArgs: 2,
		Short: "Pause or run a task against its schedule",
		Long: "Pauses a task: its process is stopped until -state=run or -state=scheduled. The state run starts a task outside of its\n" +
			"schedule. The state scheduled lets the schedule apply again; a task without a schedule then runs.",
		Setup: func(f *term.Flags) term.Run {
			name := f.String("task", "", "The `task`. Required if the allocation has more than one.")
			state := f.String("state", "pause", "The `state` to set: pause, run or scheduled.")
			status := f.Bool("status", false, "Print the state of the task.")
			f.Bool("verbose", false, "Print full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				switch *state {
				case "pause", "run", "scheduled":
				default:
					return fmt.Errorf("Unknown state %q: use pause, run or scheduled", *state)
				}
				at, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				if *name == "" {
					*name = e.Arg(1)
				}
				if *name, err = task(at.alloc, *name); err != nil {
					return err
				}
				if *status {
					got, _, err := at.client.Allocations().GetPauseState(at.alloc, query(ctx, at.alloc), *name)
					if err != nil {
						return fmt.Errorf("Error reading the pause state of task %q: %w", *name, err)
					}
					e.Printf("Pause state: %q\n", got)
					return nil
				}
				if err := at.client.Allocations().SetPauseState(at.alloc, query(ctx, at.alloc), *name, *state); err != nil {
					return fmt.Errorf("Error setting the pause state of task %q: %w", *name, err)
				}
				return nil
			}
		},
	}
}
