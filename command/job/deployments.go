package job

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/deployment"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

func deploymentsCommand() term.Command {
	return term.Command{
		Name: "job deployments", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "List the deployments of a job",
		Setup: func(f *term.Flags) term.Run {
			latest := f.Bool("latest", false, "Show only the latest deployment.")
			all := f.Bool("all", false, "Also list deployments of an earlier job with the same ID.")
			detail := f.Detail("Print full IDs.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				if *latest {
					return latestDeployment(ctx, e, *detail, &formats)
				}
				return listDeployments(ctx, e, *all, *detail, &formats)
			}
		},
	}
}

func listDeployments(ctx context.Context, e *term.Env, all bool, detail term.Detail, formats *term.Formats) error {
	c, stub, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	found, _, err := c.Jobs().Deployments(stub.ID, all, inNamespace(ctx, stub.Namespace))
	switch {
	case err != nil:
		return fmt.Errorf("Error retrieving deployments: %w", err)
	case formats.Wanted():
		return formats.Print(e, found)
	case len(found) == 0:
		e.Println("No deployments found")
		return nil
	}
	e.Println(deployment.Table(found, detail))
	return nil
}

func latestDeployment(ctx context.Context, e *term.Env, detail term.Detail, formats *term.Formats) error {
	c, stub, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	d, _, err := c.Jobs().LatestDeployment(stub.ID, inNamespace(ctx, stub.Namespace))
	switch {
	case err != nil:
		return fmt.Errorf("Error retrieving deployments: %w", err)
	case formats.Wanted():
		return formats.Print(e, d)
	case d == nil:
		e.Println("No deployment found")
		return nil
	}
	e.Println(monitor.DeploymentText(d, detail))
	return nil
}

func promoteCommand() term.Command {
	return term.Command{
		Name: "job promote", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Promote the canaries of a job",
		Long: `Promotes the canaries of the latest deployment of the job, in all groups or in those of -group. The allocations of
the older version are then replaced. All canaries of a promoted group must be healthy.`,
		Setup: func(f *term.Flags) term.Run {
			groups := f.Strings("group", "Promote only this `group`; may be repeated.")
			detach := f.Bool("detach", false, "Print the evaluation's ID and return immediately.")
			detail := f.Detail("Print full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				d, _, err := c.Jobs().LatestDeployment(stub.ID, inNamespace(ctx, stub.Namespace))
				switch {
				case err != nil:
					return fmt.Errorf("Error retrieving deployment: %w", err)
				case d == nil:
					return fmt.Errorf("Job %q has no deployment to promote", stub.ID)
				}
				resp, err := deployment.Promote(ctx, c, d, *groups)
				switch {
				case err != nil:
					return err
				case *detach:
					e.Printf("Evaluation ID: %s\n", resp.EvalID)
					return nil
				}
				return monitor.New(e, c, stub.Namespace, *detail).Eval(ctx, resp.EvalID)
			}
		},
	}
}

// printWarnings prints the warnings of a registration.
func printWarnings(e *term.Env, resp *api.JobRegisterResponse) {
	if resp.Warnings != "" {
		e.Println(e.Bold("Job Warnings:\n" + resp.Warnings + "\n"))
	}
}
