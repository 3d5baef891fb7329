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
			o := &deploymentsOptions{}
			f.BoolVar(&o.latest, "latest", false, "Show only the latest deployment.")
			f.BoolVar(&o.all, "all", false, "Also list deployments of an earlier job with the same ID.")
			f.DetailVar(&o.detail, "Print full IDs.")
			o.formats.Declare(f)
			return o.run
		},
	}
}

// deploymentsOptions are the flags of job deployments.
type deploymentsOptions struct {
	latest, all bool
	detail      term.Detail
	formats     term.Formats
}

func (o *deploymentsOptions) run(ctx context.Context, e *term.Env) error {
	c, stub, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	if o.latest {
		return o.showLatest(ctx, e, c, stub)
	}
	found, _, err := c.Jobs().Deployments(stub.ID, o.all, inNamespace(ctx, stub.Namespace))
	switch {
	case err != nil:
		return fmt.Errorf("Error retrieving deployments: %w", err)
	case o.formats.Wanted():
		return o.formats.Print(e, found)
	case len(found) == 0:
		e.Println("No deployments found")
		return nil
	}
	e.Println(deployment.Table(found, o.detail))
	return nil
}

func (o *deploymentsOptions) showLatest(ctx context.Context, e *term.Env, c *api.Client, stub *api.JobListStub) error {
	d, _, err := c.Jobs().LatestDeployment(stub.ID, inNamespace(ctx, stub.Namespace))
	switch {
	case err != nil:
		return fmt.Errorf("Error retrieving deployments: %w", err)
	case o.formats.Wanted():
		return o.formats.Print(e, d)
	case d == nil:
		e.Println("No deployment found")
		return nil
	}
	e.Println(monitor.DeploymentText(d, o.detail))
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
