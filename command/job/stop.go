package job

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

func stopCommand() term.Command {
	return term.Command{
		Name: "job stop", Alias: []string{"stop"}, Args: "<job>...", MinArgs: 1, MaxArgs: -1,
		Short: "Stop a running job",
		Long: "Stops each job and monitors its evaluation. A prefix must match exactly one job.\n" +
			"The command asks for confirmation of a prefix, unless -yes is set.",
		Setup: func(f *term.Flags) term.Run {
			o := &stopOptions{}
			f.BoolVar(&o.Purge, "purge", false, "Also remove the job from state.")
			f.BoolVar(&o.Global, "global", false, "Stop a multiregion job in all its regions.")
			f.BoolVar(&o.NoShutdownDelay, "no-shutdown-delay", false, "Ignore the shutdown_delay of groups and tasks.")
			f.IntVar(&o.EvalPriority, "eval-priority", 0, "The `priority` of the evaluation. Default: the job's priority.")
			f.BoolVar(&o.detach, "detach", false, "Print the evaluation's ID and return immediately.")
			f.DetailVar(&o.detail, "Print full IDs.")
			f.BoolVar(&o.yes, "yes", false, "Don't ask for confirmation.")
			return func(ctx context.Context, e *term.Env) error {
				for _, prefix := range e.Args {
					if err := o.stop(ctx, e, prefix); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}

// stopOptions are the flags of job stop.
type stopOptions struct {
	api.DeregisterOptions
	detach, yes bool
	detail      term.Detail
}

func (o *stopOptions) stop(ctx context.Context, e *term.Env, prefix string) error {
	c, stub, err := find(ctx, e, prefix)
	if err != nil {
		return err
	}
	if stub.ID != prefix && !o.yes && !e.Confirm(fmt.Sprintf("Are you sure you want to stop job %q? [y/N]", stub.ID)) {
		return fmt.Errorf("Cancelling job stop")
	}
	evalID, _, err := c.Jobs().DeregisterOpts(stub.ID, &o.DeregisterOptions, writeIn(ctx, stub.Namespace))
	switch {
	case err != nil:
		return fmt.Errorf("Error deregistering job: %w", err)
	case evalID == "":
		return nil
	case o.detach:
		e.Println(evalID)
		return nil
	}
	return monitor.New(e, c, stub.Namespace, o.detail).Eval(ctx, evalID)
}

func evalCommand() term.Command {
	return term.Command{
		Name: "job eval", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Create an evaluation of a job",
		Setup: func(f *term.Flags) term.Run {
			opts := api.EvalOptions{}
			f.BoolVar(&opts.ForceReschedule, "force-reschedule", false, "Reschedule failed allocations now, regardless of the reschedule policy.")
			detach := f.Bool("detach", false, "Print the evaluation's ID and return immediately.")
			detail := f.Detail("Print full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				id, _, err := c.Jobs().EvaluateWithOpts(stub.ID, opts, writeIn(ctx, stub.Namespace))
				if err != nil {
					return fmt.Errorf("Error evaluating job: %w", err)
				}
				if *detach {
					e.Printf("Created eval ID: %q\n", detail.ID(id))
					return nil
				}
				return monitor.New(e, c, stub.Namespace, *detail).Eval(ctx, id)
			}
		},
	}
}
