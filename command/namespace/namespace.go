// Package namespace holds the commands for namespaces: apply, delete, inspect, list,
// status. They call an agent through package api and keep no state.
package namespace

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/quota"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{applyCommand(), deleteCommand(), inspectCommand(), listCommand(), statusCommand()}
}

func applyCommand() term.Command {
	return term.Command{
		Name: "namespace apply", Args: "<file, name or ->", MinArgs: 1, MaxArgs: 1,
		Short: "Create or update a namespace",
		Long: "Reads a specification in HCL or JSON from a file, or from standard input with -. With a name " +
			"instead, it creates the namespace, or updates its description and quota.",
		Setup: func(f *term.Flags) term.Run {
			description := f.String("description", "", "The description of the namespace. Requires a name as the argument.")
			quota := f.String("quota", "", "The quota of the namespace, or \"\" for none. Requires a name as the argument.")
			asJSON := f.Bool("json", false, "Read the specification as JSON.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				ns, err := given(ctx, e, c, *asJSON)
				if err != nil {
					return err
				}
				if *description != "" {
					ns.Description = *description
				}
				f.Visit(func(g *flag.Flag) {
					if g.Name == "quota" {
						ns.Quota = *quota
					}
				})
				if _, err := c.Namespaces().Register(ns, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error applying namespace specification: %w", err)
				}
				e.Printf("Successfully applied namespace %q!\n", ns.Name)
				return nil
			}
		},
	}
}

func deleteCommand() term.Command {
	return term.Deletion(term.Command{Name: "namespace delete", Args: "<namespace>", Short: "Delete a namespace without jobs"}, "namespace",
		func(c *api.Client, name string, w *api.WriteOptions) (*api.WriteMeta, error) {
			return c.Namespaces().Delete(name, w)
		})
}

func listCommand() term.Command {
	return term.Shown(term.Command{Name: "namespace list", Short: "List the namespaces"},
		func(ctx context.Context, c *api.Client) ([]*api.Namespace, error) {
			all, _, err := c.Namespaces().List((&api.QueryOptions{}).WithContext(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error retrieving namespaces: %w", err)
			}
			return all, nil
		},
		func(e *term.Env, all []*api.Namespace) {
			rows := []string{"Name|Description"}
			for _, n := range all {
				rows = append(rows, term.Row(n.Name, n.Description))
			}
			e.Println(term.Table(rows))
		})
}

func inspectCommand() term.Command {
	return oneCommand("namespace inspect", "Show a namespace as JSON", nil)
}

func statusCommand() term.Command {
	return oneCommand("namespace status", "Show a namespace",
		func(ctx context.Context, c *api.Client, e *term.Env, n *api.Namespace) {
			e.Println(term.Pairs(facts(n)))
			for _, part := range []struct {
				title  string
				values map[string]string
			}{{"Metadata", n.Meta}, {"Required Extra Claims", n.RequiredExtraClaims}, {"Optional Extra Claims", n.OptionalExtraClaims}} {
				if len(part.values) == 0 {
					continue
				}
				var rows []string
				for _, k := range slices.Sorted(maps.Keys(part.values)) {
					rows = append(rows, term.Row(k, part.values[k]))
				}
				e.Println("\n" + e.Bold(part.title) + "\n" + term.Pairs(rows))
			}
			limits(ctx, c, e, n.Quota)
		})
}

// limits prints the quota of a namespace and its usage, if the caller can read quotas.
func limits(ctx context.Context, c *api.Client, e *term.Env, name string) {
	if name == "" {
		return
	}
	q := (&api.QueryOptions{}).WithContext(ctx)
	spec, _, err := c.Quotas().Info(name, q)
	if err != nil {
		e.Printf("\nCould not read the limits of the quota: %v\n", err)
		return
	}
	usage, _, err := c.Quotas().Usage(name, q)
	if err != nil {
		e.Printf("\nCould not read the usage of the quota: %v\n", err)
	}
	e.Println("\n" + e.Bold("Quota Limits") + "\n" + quota.Limits(spec, usage))
}

// facts returns the rows with the capabilities of a namespace.
func facts(n *api.Namespace) []string {
	rows := []string{term.Row("Name", n.Name), term.Row("Description", n.Description), term.Row("Quota", n.Quota)}
	c := n.Capabilities
	if c == nil {
		c = &api.NamespaceCapabilities{}
	}
	rows = append(rows, term.Row("EnabledDrivers", listed(c.EnabledTaskDrivers, "*")),
		term.Row("DisabledDrivers", listed(c.DisabledTaskDrivers, "")),
		term.Row("EnabledNetworkModes", listed(c.EnabledNetworkModes, "*")), term.Row("DisabledNetworkModes", listed(c.DisabledNetworkModes, "")))
	if p := n.NodePoolConfiguration; p != nil {
		allowed := "*"
		if p.Allowed != nil || p.Denied != nil {
			allowed = ""
		}
		rows = append(rows, term.Row("DefaultNodePool", p.Default), term.Row("AllowedNodePools", listed(p.Allowed, allowed)),
			term.Row("DeniedNodePools", listed(p.Denied, "")))
	}
	if i := n.Isolation; i != nil {
		rows = append(rows, term.Row("MinimumIsolation", i.Minimum), term.Row("EnforceIsolation", i.Enforce), term.Row("WarnIsolation", i.Warn),
			term.Row("ClaimIsolation", i.Claim))
	}
	if n.Privileged != "" {
		rows = append(rows, term.Row("Privileged", n.Privileged))
	}
	return rows
}

func listed(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ",")
}

// oneCommand returns a command that shows one namespace: as JSON if show is nil.
func oneCommand(name, short string, show func(context.Context, *api.Client, *term.Env, *api.Namespace)) term.Command {
	return term.Command{
		Name: name, Args: "<namespace>", MinArgs: 1, MaxArgs: 1, Short: short,
		Setup: func(f *term.Flags) term.Run {
			formats := &term.Formats{}
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				n, _, err := c.Namespaces().Info(e.Arg(0), (&api.QueryOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error retrieving namespace: %w", err)
				}
				if show == nil {
					formats.Always()
				}
				if formats.Wanted() {
					return formats.Print(e, n)
				}
				show(ctx, c, e, n)
				return nil
			}
		},
	}
}
