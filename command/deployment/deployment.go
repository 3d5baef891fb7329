// Package deployment implements the commands for deployments: status, list, fail, pause, resume,
// promote and unblock. They call an agent through package api and keep no state.
package deployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{statusCommand(), listCommand(), failCommand(), pauseCommand(), resumeCommand(), unblockCommand(), promoteCommand()}
}

// find returns the only deployment whose ID begins with prefix, and the client for
// further requests.
func find(ctx context.Context, e *term.Env, prefix string) (*api.Client, *api.Deployment, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	if len(prefix) < 2 {
		return nil, nil, fmt.Errorf("Identifier must contain at least two characters.")
	}
	all, _, err := c.Deployments().List((&api.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: e.Namespace()}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("Error retrieving deployment: %w", err)
	}
	all = slices.DeleteFunc(all, func(d *api.Deployment) bool { return !strings.HasPrefix(d.ID, prefix) })
	switch len(all) {
	case 0:
		return nil, nil, fmt.Errorf("Deployment ID %q matched no deployments", prefix)
	case 1:
		return c, all[0], nil
	}
	return nil, nil, fmt.Errorf("Prefix matched multiple deployments\n\n%s", Table(all, term.Full))
}

// Table formats deployments.
func Table(all []*api.Deployment, detail term.Detail) string {
	rows := []string{"ID|Namespace|Job ID|Job Version|Status|Description"}
	for _, d := range all {
		rows = append(rows, term.Row(detail.ID(d.ID), d.Namespace, d.JobID, d.JobVersion, d.Status, d.StatusDescription))
	}
	return term.Table(rows)
}

func statusCommand() term.Command {
	return term.Command{
		Name: "deployment status", Args: "[deployment]", MaxArgs: 1,
		Short: "Show one deployment, or list all",
		Setup: func(f *term.Flags) term.Run {
			follow := f.Bool("monitor", false, "Monitor the deployment until it is terminal.")
			detail := f.Detail("Show full IDs.")
			f.Duration("wait", 2*time.Second, "Accepted for compatibility and ignored: changes are shown immediately.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				if e.Arg(0) == "" {
					return listing{"", *detail, formats}.print(ctx, e)
				}
				c, d, err := find(ctx, e, e.Arg(0))
				switch {
				case err != nil:
					return err
				case formats.Wanted():
					return formats.Print(e, d)
				case *follow:
					return monitor.New(e, c, d.Namespace, *detail).Deployment(ctx, d.ID)
				}
				e.Println(monitor.DeploymentText(d, *detail))
				return nil
			}
		},
	}
}

func listCommand() term.Command {
	return term.Command{
		Name: "deployment list", Short: "List the deployments",
		Setup: func(f *term.Flags) term.Run {
			detail := f.Detail("Show full IDs.")
			filter := f.String("filter", "", "Show only deployments that match this `expression`.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error { return listing{*filter, *detail, formats}.print(ctx, e) }
		},
	}
}

// listing is a list of the deployments that match a filter.
type listing struct {
	filter  string // "" for all
	detail  term.Detail
	formats term.Formats
}

func (l listing) print(ctx context.Context, e *term.Env) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	all, _, err := c.Deployments().List((&api.QueryOptions{Namespace: e.Namespace(), Filter: l.filter}).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("Error retrieving deployments: %w", err)
	case l.formats.Wanted():
		return l.formats.Print(e, all)
	case len(all) == 0:
		e.Println("No deployments found")
		return nil
	}
	e.Println(Table(all, l.detail))
	return nil
}

func failCommand() term.Command {
	return term.Command{
		Name: "deployment fail", Args: "<deployment>", MinArgs: 1, MaxArgs: 1,
		Short: "Mark a running deployment as failed",
		Setup: func(f *term.Flags) term.Run {
			o := newUpdate(f)
			return func(ctx context.Context, e *term.Env) error {
				c, d, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				resp, _, err := c.Deployments().Fail(d.ID, (&api.WriteOptions{Namespace: d.Namespace}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error failing deployment: %w", err)
				}
				e.Printf("Deployment %q failed\n", o.detail.ID(d.ID))
				return o.monitor(ctx, e, d, resp)
			}
		},
	}
}

func pauseCommand() term.Command {
	return term.Command{
		Name: "deployment pause", Args: "<deployment>", MinArgs: 1, MaxArgs: 1,
		Short: "Pause a running deployment",
		Setup: func(f *term.Flags) term.Run {
			detail := f.Detail("Print full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				d, _, err := pause(ctx, e, true)
				if err != nil {
					return fmt.Errorf("Error pausing deployment: %w", err)
				}
				e.Printf("Deployment %q paused\n", detail.ID(d.ID))
				return nil
			}
		},
	}
}

func resumeCommand() term.Command {
	return term.Command{
		Name: "deployment resume", Args: "<deployment>", MinArgs: 1, MaxArgs: 1,
		Short: "Resume a paused deployment",
		Setup: func(f *term.Flags) term.Run {
			o := newUpdate(f)
			return func(ctx context.Context, e *term.Env) error {
				d, resp, err := pause(ctx, e, false)
				if err != nil {
					return fmt.Errorf("Error resuming deployment: %w", err)
				}
				e.Printf("Deployment %q resumed\n", o.detail.ID(d.ID))
				return o.monitor(ctx, e, d, resp)
			}
		},
	}
}

func unblockCommand() term.Command {
	return term.Command{
		Name: "deployment unblock", Args: "<deployment>", MinArgs: 1, MaxArgs: 1,
		Short: "Complete a deployment that waits for other regions",
		Long: `A deployment in one region only is never blocked. Servers of Nomad Enterprise create blocked deployments of jobs in
several regions.

    nomad deployment unblock 8990cfbc`,
		Setup: func(f *term.Flags) term.Run {
			o := newUpdate(f)
			return func(ctx context.Context, e *term.Env) error {
				c, d, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				resp, _, err := c.Deployments().Unblock(d.ID, (&api.WriteOptions{Namespace: d.Namespace}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error unblocking deployment: %w", err)
				}
				e.Printf("Deployment %q unblocked\n", o.detail.ID(d.ID))
				return o.monitor(ctx, e, d, resp)
			}
		},
	}
}

// pause pauses the deployment of the first argument, or resumes it if on is false.
func pause(ctx context.Context, e *term.Env, on bool) (*api.Deployment, *api.DeploymentUpdateResponse, error) {
	c, d, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return nil, nil, err
	}
	resp, _, err := c.Deployments().Pause(d.ID, on, (&api.WriteOptions{Namespace: d.Namespace}).WithContext(ctx))
	return d, resp, err
}

func promoteCommand() term.Command {
	return term.Command{
		Name: "deployment promote", Args: "<deployment>", MinArgs: 1, MaxArgs: 1,
		Short: "Promote the canaries of a deployment",
		Long: `Promotes the canaries of all groups, or of the groups of -group. The allocations of the older version are then
replaced. All canaries of a promoted group must be healthy.`,
		Setup: func(f *term.Flags) term.Run {
			groups := f.Strings("group", "Promote only this `group`; may be repeated.")
			o := newUpdate(f)
			return func(ctx context.Context, e *term.Env) error {
				c, d, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				resp, err := Promote(ctx, c, d, *groups)
				if err != nil {
					return err
				}
				e.Printf("Deployment %q promoted\n", o.detail.ID(d.ID))
				return o.monitor(ctx, e, d, resp)
			}
		},
	}
}

// Promote promotes the canaries of groups of a deployment, or of all groups if none is given.
func Promote(ctx context.Context, c *api.Client, d *api.Deployment, groups []string) (*api.DeploymentUpdateResponse, error) {
	q := (&api.WriteOptions{Namespace: d.Namespace}).WithContext(ctx)
	var resp *api.DeploymentUpdateResponse
	var err error
	if len(groups) == 0 {
		resp, _, err = c.Deployments().PromoteAll(d.ID, q)
	} else {
		resp, _, err = c.Deployments().PromoteGroups(d.ID, groups, q)
	}
	if err != nil {
		return nil, fmt.Errorf("Error promoting deployment: %w", err)
	}
	return resp, nil
}

// update has the flags of a command that changes a deployment.
type update struct {
	detach *bool
	detail *term.Detail
}

func newUpdate(f *term.Flags) *update {
	return &update{f.Bool("detach", false, "Print the evaluation's ID and return immediately."), f.Detail("Print full IDs.")}
}

// monitor monitors the evaluation that the change created, if any.
func (o *update) monitor(ctx context.Context, e *term.Env, d *api.Deployment, resp *api.DeploymentUpdateResponse) error {
	switch {
	case resp.EvalID == "":
		return nil
	case *o.detach:
		e.Printf("Evaluation ID: %s\n", resp.EvalID)
		return nil
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	return monitor.New(e, c, d.Namespace, *o.detail).EvalOnly(ctx, resp.EvalID)
}
