// Package quota holds the commands for quotas: apply, delete, init, inspect, list, status.
// They call an agent through package api and keep no state.
package quota

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{applyCommand(), deleteCommand(), initCommand(), inspectCommand(), listCommand(), statusCommand()}
}

// maxSpec is the maximum size of a specification, in bytes.
const maxSpec = 1 << 20

func applyCommand() term.Command {
	return term.Command{
		Name: "quota apply", Args: "<file or ->", MinArgs: 1, MaxArgs: 1,
		Short: "Create or update a quota",
		Long: "Reads a specification in HCL from a file, or from standard input with - ('nomad quota init' writes " +
			"an example). The quota takes effect at once. Running allocations continue, even above the new limits.",
		Setup: func(f *term.Flags) term.Run {
			asJSON := f.Bool("json", false, "Read the specification as JSON, with the keys of the API.")
			return func(ctx context.Context, e *term.Env) error {
				text, err := e.Input(e.Arg(0), maxSpec)
				if err != nil {
					return fmt.Errorf("Error reading the quota specification: %w", err)
				}
				spec, err := parse(text, *asJSON)
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				if _, err := c.Quotas().Register(spec, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error applying quota specification: %w", err)
				}
				e.Printf("Successfully applied quota specification %q!\n", spec.Name)
				return nil
			}
		},
	}
}

func deleteCommand() term.Command {
	return term.Deletion(term.Command{Name: "quota delete", Args: "<quota>", Short: "Delete a quota that no namespace uses"}, "quota",
		func(c *api.Client, name string, w *api.WriteOptions) (*api.WriteMeta, error) {
			return c.Quotas().Delete(name, w)
		})
}

func listCommand() term.Command {
	return term.Shown(term.Command{Name: "quota list", Short: "List the quotas"},
		func(ctx context.Context, c *api.Client) ([]*api.QuotaSpec, error) {
			all, _, err := c.Quotas().List((&api.QueryOptions{}).WithContext(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error retrieving quotas: %w", err)
			}
			return all, nil
		},
		func(e *term.Env, all []*api.QuotaSpec) {
			if len(all) == 0 {
				e.Println("No quotas found")
				return
			}
			rows := []string{"Name|Description"}
			for _, q := range all {
				rows = append(rows, term.Row(q.Name, q.Description))
			}
			e.Println(term.Table(rows))
		})
}

// Used is a quota and its usage.
type Used struct {
	Spec  *api.QuotaSpec
	Usage *api.QuotaUsage
}

func inspectCommand() term.Command {
	return oneCommand("quota inspect", "Show a quota and its usage as JSON", func(e *term.Env, formats *term.Formats, u *Used) error {
		formats.Always()
		return formats.Print(e, u)
	})
}

func statusCommand() term.Command {
	return oneCommand("quota status", "Show a quota and its usage", func(e *term.Env, formats *term.Formats, u *Used) error {
		if formats.Wanted() {
			return formats.Print(e, u)
		}
		e.Println(term.Pairs([]string{term.Row("Name", u.Spec.Name), term.Row("Description", u.Spec.Description),
			term.Row("Limits", len(u.Spec.Limits))}))
		e.Println("\n" + e.Bold("Quota Limits") + "\n" + Limits(u.Spec, u.Usage))
		return nil
	})
}

// oneCommand returns a command that shows one quota.
func oneCommand(name, short string, show func(*term.Env, *term.Formats, *Used) error) term.Command {
	return term.Command{
		Name: name, Args: "<quota>", MinArgs: 1, MaxArgs: 1, Short: short,
		Setup: func(f *term.Flags) term.Run {
			formats := &term.Formats{}
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				q := (&api.QueryOptions{}).WithContext(ctx)
				spec, _, err := c.Quotas().Info(e.Arg(0), q)
				if err != nil {
					return fmt.Errorf("Error retrieving quota: %w", err)
				}
				usage, _, err := c.Quotas().Usage(spec.Name, q)
				if err != nil {
					return fmt.Errorf("Error retrieving quota usage: %w", err)
				}
				return show(e, formats, &Used{spec, usage})
			}
		},
	}
}

func initCommand() term.Command {
	return term.Command{
		Name: "quota init", Args: "[filename]", MaxArgs: 1,
		Short: "Write an example quota specification",
		Setup: func(f *term.Flags) term.Run {
			asJSON := f.Bool("json", false, "Write JSON.")
			return func(_ context.Context, e *term.Env) error {
				name, text := "spec.hcl", exampleHCL
				if *asJSON {
					name, text = "spec.json", exampleJSON
				}
				if e.Arg(0) != "" {
					name = e.Arg(0)
				}
				if err := term.WriteNew(name, text, 0o644); err != nil {
					return err
				}
				e.Printf("Example quota specification written to %s\n", name)
				return nil
			}
		},
	}
}
