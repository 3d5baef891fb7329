package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/httpclient"
	"github.com/open-nomad/open-nomad/command/term"
)

// kinds are the kinds of objects that an ID can name, in the order of the search.
var kinds = []struct {
	name, command string
	list          func(context.Context, *httpclient.Client, string, string) ([]string, error)
}{
	{"job", "job status", func(ctx context.Context, c *httpclient.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.Jobs().List((&httpclient.QueryOptions{Prefix: prefix, Namespace: ns}).WithContext(ctx))
		return ids(found, func(j *api.JobListStub) string { return j.ID }), err
	}},
	{"node", "node status", func(ctx context.Context, c *httpclient.Client, _, prefix string) ([]string, error) {
		found, _, err := c.Nodes().List((&httpclient.QueryOptions{Prefix: term.UUIDPrefix(prefix)}).WithContext(ctx))
		return ids(found, func(n *api.NodeListStub) string { return n.ID }), err
	}},
	{"allocation", "alloc status", func(ctx context.Context, c *httpclient.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.Allocations().List((&httpclient.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: ns}).WithContext(ctx))
		return ids(found, func(a *api.AllocationListStub) string { return a.ID }), err
	}},
	{"evaluation", "eval status", func(ctx context.Context, c *httpclient.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.Evaluations().List((&httpclient.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: ns}).WithContext(ctx))
		return ids(found, func(e *api.Evaluation) string { return e.ID }), err
	}},
	{"deployment", "deployment status", func(ctx context.Context, c *httpclient.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.Deployments().List((&httpclient.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: ns}).WithContext(ctx))
		return ids(found, func(d *api.Deployment) string { return d.ID }), err
	}},
}

func ids[T any](of []T, id func(T) string) []string {
	var out []string
	for _, v := range of {
		out = append(out, id(v))
	}
	return out
}

func statusCommand() term.Command {
	return term.Command{
		Name: "status", Args: "[identifier]", MaxArgs: 1,
		Short: "Show the object with an ID, or list the jobs",
		Long:  "Finds the job, node, allocation, evaluation or deployment with the ID or prefix, and shows its\nstatus. Without an argument it lists the jobs.",
		Setup: func(f *term.Flags) term.Run {
			detail := f.Detail("Show full IDs.")
			return func(ctx context.Context, e *term.Env) error { return status(ctx, e, *detail) }
		},
	}
}

func status(ctx context.Context, e *term.Env, detail term.Detail) error {
	id := e.Arg(0)
	if id == "" {
		return runAs(e, "job status", detail)
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	var matches []string
	command := ""
	for _, k := range kinds {
		if k.name != "job" && len(id) < 2 {
			continue
		}
		found, err := k.list(ctx, c, e.Namespace(), id)
		if err != nil {
			return fmt.Errorf("Error querying %ss with prefix %q: %w", k.name, id, err)
		}
		for _, m := range found {
			if m == id {
				return runAs(e, k.command, detail)
			}
			if strings.HasPrefix(m, id) {
				matches, command = append(matches, term.Row(k.name, m)), k.command
			}
		}
	}
	switch len(matches) {
	case 0:
		return fmt.Errorf("No matches found for identifier %q", id)
	case 1:
		return runAs(e, command, detail)
	}
	return fmt.Errorf("Multiple matches found for identifier %q\n\n%s", id, term.Table(append([]string{"Kind|ID"}, matches...)))
}

// runAs runs another command with the same common flags and arguments.
func runAs(e *term.Env, name string, detail term.Detail) error {
	var args []string
	if detail {
		args = append(args, "-verbose")
	}
	for _, c := range commands() {
		if c.Name == name {
			if code := e.RunAs(c, append(args, e.Args...)); code != 0 {
				return term.Exit(code)
			}
			return nil
		}
	}
	panic("command: bug: no such command: " + name)
}
