package command

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// objectKind is a kind of objects, the command that shows one, and the IDs with a prefix in a namespace.
type objectKind struct {
	name, command string
	list          func(ctx context.Context, c *api.Client, namespace, prefix string) ([]string, error)
}

// kinds are the kinds of objects that an ID can name, in the order of the search.
var kinds = []objectKind{
	{"job", "job status", func(ctx context.Context, c *api.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.Jobs().List((&api.QueryOptions{Prefix: prefix, Namespace: ns}).WithContext(ctx))
		return ids(found, func(j *api.JobListStub) string { return j.ID }), err
	}},
	{"node", "node status", func(ctx context.Context, c *api.Client, _, prefix string) ([]string, error) {
		found, _, err := c.Nodes().List((&api.QueryOptions{Prefix: term.UUIDPrefix(prefix)}).WithContext(ctx))
		return ids(found, func(n *api.NodeListStub) string { return n.ID }), err
	}},
	{"allocation", "alloc status", func(ctx context.Context, c *api.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.Allocations().List((&api.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: ns}).WithContext(ctx))
		return ids(found, func(a *api.AllocationListStub) string { return a.ID }), err
	}},
	{"evaluation", "eval status", func(ctx context.Context, c *api.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.Evaluations().List((&api.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: ns}).WithContext(ctx))
		return ids(found, func(e *api.Evaluation) string { return e.ID }), err
	}},
	{"deployment", "deployment status", func(ctx context.Context, c *api.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.Deployments().List((&api.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: ns}).WithContext(ctx))
		return ids(found, func(d *api.Deployment) string { return d.ID }), err
	}},
	{"volume", "volume status", func(ctx context.Context, c *api.Client, ns, prefix string) ([]string, error) {
		found, _, err := c.CSIVolumes().List((&api.QueryOptions{Prefix: prefix, Namespace: ns}).WithContext(ctx))
		return ids(found, func(v *api.CSIVolumeListStub) string { return v.ID }), unlessForbidden(err)
	}},
	{"plugin", "plugin status", func(ctx context.Context, c *api.Client, _, prefix string) ([]string, error) {
		found, _, err := c.CSIPlugins().List((&api.QueryOptions{Prefix: prefix}).WithContext(ctx))
		return ids(found, func(p *api.CSIPluginListStub) string { return p.ID }), unlessForbidden(err)
	}},
}

// unlessForbidden returns nil if the caller may not list objects of a kind: those that it may list can still match.
func unlessForbidden(err error) error {
	if api.StatusCode(err) == http.StatusForbidden {
		return nil
	}
	return err
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
		Long: "Finds the job, node, allocation, evaluation, deployment, CSI volume or CSI plugin with the ID or\n" +
			"prefix, and shows its status. Without an argument it lists the jobs.",
		Setup: func(f *term.Flags) term.Run {
			var args statusArgs
			f.DetailVar(&args.detail, "Show full IDs.")
			f.BoolVar(&args.ui, "ui", false, "Open the page in the web UI.")
			return func(ctx context.Context, e *term.Env) error { return status(ctx, e, args) }
		},
	}
}

// statusArgs are the flags of status, which it passes on.
type statusArgs struct {
	detail term.Detail
	ui     bool
}

func status(ctx context.Context, e *term.Env, args statusArgs) error {
	id := e.Arg(0)
	if id == "" {
		return runAs(e, "job status", args)
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	kind, _, err := findObject(ctx, e, c, id)
	if err != nil {
		return err
	}
	return runAs(e, kind.command, args)
}

// findObject returns the object with an ID, or the only one with a prefix.
func findObject(ctx context.Context, e *term.Env, c *api.Client, id string) (*objectKind, string, error) {
	var (
		rows []string
		kind *objectKind
		full string
	)
	for i, k := range kinds {
		if k.name != "job" && len(id) < 2 {
			continue
		}
		found, err := k.list(ctx, c, e.Namespace(), id)
		if err != nil {
			return nil, "", fmt.Errorf("Error querying %ss with prefix %q: %w", k.name, id, err)
		}
		for _, m := range found {
			if m == id {
				return &kinds[i], m, nil
			}
			if strings.HasPrefix(m, id) {
				rows, kind, full = append(rows, term.Row(k.name, m)), &kinds[i], m
			}
		}
	}
	switch len(rows) {
	case 0:
		return nil, "", fmt.Errorf("No matches found for identifier %q", id)
	case 1:
		return kind, full, nil
	}
	return nil, "", fmt.Errorf("Multiple matches found for identifier %q\n\n%s", id, term.Table(append([]string{"Kind|ID"}, rows...)))
}

// runAs runs another command with the same common flags and arguments.
func runAs(e *term.Env, name string, flags statusArgs) error {
	var args []string
	if flags.detail {
		args = append(args, "-verbose")
	}
	if flags.ui {
		args = append(args, "-ui")
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
