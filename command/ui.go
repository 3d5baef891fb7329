package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/browse"
	"github.com/open-nomad/open-nomad/command/term"
)

func uiCommand() term.Command {
	return term.Command{
		Name: "ui", Args: "[identifier]", MaxArgs: 1,
		Short: "Open the web UI",
		Long: `Opens the web UI in a browser: BROWSER, or else that of the desktop. With the ID or prefix of a job, node, allocation,
evaluation or deployment, it opens the page of that object.

-authenticate signs the browser in with your token. The address then contains a one-time token. It works once, within
ten minutes.`,
		Setup: func(f *term.Flags) term.Run {
			authenticate := f.Bool("authenticate", false, "Sign in with your token, by a one-time token.")
			showURL := f.Bool("show-url", false, "Print the address and do not open it.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				address, err := pageAddress(ctx, e, c, e.Arg(0))
				if err != nil {
					return err
				}
				shown := address
				if *authenticate {
					if address, err = withOneTimeToken(ctx, c, address); err != nil {
						return err
					}
				}
				if *showURL {
					e.Printf("URL for web UI: %s\n", address)
					return nil
				}
				e.Printf("Opening URL %q\n", shown)
				return browse.Open(ctx, address)
			}
		},
	}
}

// pageAddress returns the URL of the page of an object, or of the UI if id is empty.
func pageAddress(ctx context.Context, e *term.Env, c *api.Client, id string) (string, error) {
	path := browse.Root
	if id != "" {
		kind, full, err := findObject(ctx, e, c, id)
		if err != nil {
			return "", err
		}
		if path, err = kind.page(ctx, e, c, full); err != nil {
			return "", err
		}
	}
	if region := e.Region(); region != "" {
		path += "?region=" + url.QueryEscape(region)
	}
	return browse.Address(c, path)
}

// withOneTimeToken adds a one-time token for the caller's token to a URL of the UI.
func withOneTimeToken(ctx context.Context, c *api.Client, address string) (string, error) {
	token, _, err := c.ACLTokens().UpsertOneTimeToken((&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("Could not get one-time token: %w", err)
	}
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + "ott=" + url.QueryEscape(token.OneTimeSecretID), nil
}

// page returns the path of the page of an object.
func (k *objectKind) page(ctx context.Context, e *term.Env, c *api.Client, id string) (string, error) {
	switch k.name {
	case "job":
		return jobPage(ctx, e, c, id)
	case "node":
		return browse.Node(id), nil
	case "allocation":
		return browse.Allocation(id), nil
	case "evaluation":
		return browse.Evaluation(id), nil
	case "deployment":
		d, _, err := c.Deployments().Info(id, (&api.QueryOptions{}).WithContext(ctx))
		if err != nil {
			return "", fmt.Errorf("Error reading deployment %s: %w", id, err)
		}
		return browse.Job(d.JobID, d.Namespace, "deployments"), nil
	case "volume":
		return volumePage(ctx, e, c, id)
	case "plugin":
		return browse.Plugin(id), nil
	}
	panic("command: bug: no page for the kind " + k.name)
}

// volumePage returns the path of a CSI volume. With the namespace *, the first volume with the ID is taken.
func volumePage(ctx context.Context, e *term.Env, c *api.Client, id string) (string, error) {
	ns := e.Namespace()
	if ns != "*" {
		return browse.CSIVolume(id, ns), nil
	}
	found, _, err := c.CSIVolumes().List((&api.QueryOptions{Prefix: id, Namespace: ns}).WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("Error querying volumes with prefix %q: %w", id, err)
	}
	i := slices.IndexFunc(found, func(v *api.CSIVolumeListStub) bool { return v.ID == id })
	if i < 0 {
		return "", fmt.Errorf("No CSI volume with ID %q found", id)
	}
	return browse.CSIVolume(id, found[i].Namespace), nil
}

// jobPage returns the path of a job. With the namespace *, the first job with the ID is taken.
func jobPage(ctx context.Context, e *term.Env, c *api.Client, id string) (string, error) {
	ns := e.Namespace()
	if ns != "*" {
		return browse.Job(id, ns, ""), nil
	}
	found, _, err := c.Jobs().List((&api.QueryOptions{Prefix: id, Namespace: ns}).WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("Error querying jobs with prefix %q: %w", id, err)
	}
	i := slices.IndexFunc(found, func(j *api.JobListStub) bool { return j.ID == id })
	if i < 0 {
		return "", fmt.Errorf("No job with ID %q found", id)
	}
	return browse.Job(id, found[i].Namespace, ""), nil
}

// lists are the commands with the flag -ui whose page does not depend on an object.
var lists = map[string]string{"eval list": browse.Evaluations, "server members": browse.Servers, "var list": browse.Variables}

// shown are the commands with the flag -ui that show one object, by its kind, and the page without one.
var shown = map[string]struct{ kind, list string }{
	"alloc status": {"allocation", browse.Root}, "deployment status": {"deployment", browse.Jobs}, "eval status": {"evaluation",
		browse.Evaluations},
	"job status": {"job", browse.Jobs}, "node status": {"node", browse.Nodes},
}

// withPages declares the flag -ui of the commands that show something. The page is opened after the
// command. "job run", "job dispatch" and "status" declare it themselves.
func withPages(commands []term.Command) []term.Command {
	for i, c := range commands {
		_, isList := lists[c.Name]
		_, isShown := shown[c.Name]
		if !isList && !isShown && c.Name != "var get" && c.Name != "var put" {
			continue
		}
		setup := c.Setup
		commands[i].Setup = func(f *term.Flags) term.Run {
			open := f.Bool("ui", false, "Open the page in the web UI.")
			run := setup(f)
			return func(ctx context.Context, e *term.Env) error {
				err := run(ctx, e)
				var exit *term.ExitError
				if !*open || err != nil && !errors.As(err, &exit) {
					return err
				}
				return errors.Join(err, showPage(ctx, e, c.Name))
			}
		}
	}
	return commands
}

// showPage opens the page of a command that has run.
func showPage(ctx context.Context, e *term.Env, name string) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	path, err := pageOfCommand(ctx, e, c, name)
	if err != nil {
		return err
	}
	return browse.Show(ctx, e, c, path)
}

func pageOfCommand(ctx context.Context, e *term.Env, c *api.Client, name string) (string, error) {
	if path, ok := lists[name]; ok {
		return path, nil
	}
	arg := e.Arg(0)
	if name == "var get" || name == "var put" {
		if strings.HasPrefix(arg, "@") || arg == "-" { // a file names the variable
			return browse.Variables, nil
		}
		return browse.Variable(arg, e.Namespace()), nil
	}
	page := shown[name]
	if arg == "" {
		return page.list, nil
	}
	kind := &kinds[slices.IndexFunc(kinds, func(k objectKind) bool { return k.name == page.kind })]
	id, err := kind.only(ctx, e, c, arg)
	if err != nil {
		return "", err
	}
	return kind.page(ctx, e, c, id)
}

// only returns the ID of the only object of the kind with a prefix.
func (k *objectKind) only(ctx context.Context, e *term.Env, c *api.Client, prefix string) (string, error) {
	found, err := k.list(ctx, c, e.Namespace(), prefix)
	if err != nil {
		return "", fmt.Errorf("Error querying %ss with prefix %q: %w", k.name, prefix, err)
	}
	found = slices.DeleteFunc(found, func(id string) bool { return !strings.HasPrefix(id, prefix) })
	if slices.Contains(found, prefix) {
		return prefix, nil
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d %ss with prefix %q: no page was opened", len(found), k.name, prefix)
	}
	return found[0], nil
}
