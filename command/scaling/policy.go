// Package scaling implements the commands for scaling policies: scaling policy list and scaling
// policy info. A policy is the scaling block of a group of a registered job. The commands call an
// agent through package api and keep no state.
package scaling

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command { return []term.Command{listCommand(), infoCommand()} }

func listCommand() term.Command {
	return term.Command{
		Name: "scaling policy list", Short: "List the scaling policies",
		Setup: func(f *term.Flags) term.Run {
			job := f.String("job", "", "Only policies of the `job` with this ID.")
			kind := f.String("type", "", "Only policies of this `type`, such as horizontal.")
			formats := &term.Formats{}
			formats.Declare(f)
			detail := f.Detail("Show full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				q := query(ctx, e)
				q.Params = map[string]string{"job": *job, "type": *kind}
				list, _, err := c.Scaling().ListPolicies(q)
				switch {
				case err != nil:
					return fmt.Errorf("Error listing scaling policies: %w", err)
				case formats.Wanted():
					return formats.Print(e, list)
				case len(list) == 0:
					e.Println("No policies found")
					return nil
				}
				e.Println(table(list, *detail))
				return nil
			}
		},
	}
}

func query(ctx context.Context, e *term.Env) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx)
}

// table formats policies.
func table(list []*api.ScalingPolicyListStub, detail term.Detail) string {
	rows := []string{"ID|Enabled|Type|Target"}
	for _, p := range list {
		rows = append(rows, term.Row(detail.ID(p.ID), p.Enabled, p.Type, target(p.Target)))
	}
	return term.Table(rows)
}

// target formats the target of a policy, such as Group:web,Job:web,Namespace:default.
func target(of map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, key+":"+of[key])
	}
	return strings.Join(parts, ",")
}

func infoCommand() term.Command {
	return term.Command{
		Name: "scaling policy info", Args: "<policy_id>", MinArgs: 1, MaxArgs: 1,
		Short: "Show a scaling policy",
		Long:  "A prefix of the ID must match exactly one policy.",
		Setup: func(f *term.Flags) term.Run {
			formats := &term.Formats{}
			formats.Declare(f)
			detail := f.Detail("Show full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				c, p, err := find(ctx, e, e.Arg(0), *detail)
				if err != nil {
					return err
				}
				policy, _, err := c.Scaling().GetPolicy(p.ID, query(ctx, e))
				switch {
				case err != nil:
					return fmt.Errorf("Error querying scaling policy: %w", err)
				case formats.Wanted():
					return formats.Print(e, policy)
				}
				return show(e, policy, *detail)
			}
		},
	}
}

// find returns the only policy whose ID begins with prefix.
func find(ctx context.Context, e *term.Env, prefix string, detail term.Detail) (*api.Client, *api.ScalingPolicyListStub, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	q := query(ctx, e)
	q.Prefix = prefix
	list, _, err := c.Scaling().ListPolicies(q)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("Error querying scaling policy: %w", err)
	case len(list) == 0:
		return nil, nil, fmt.Errorf("No scaling policies with prefix %q found", prefix)
	case len(list) > 1:
		return nil, nil, fmt.Errorf("Prefix %q matched multiple scaling policies\n\n%s", prefix, table(list, detail))
	}
	return c, list[0], nil
}

// show prints a policy.
func show(e *term.Env, p *api.ScalingPolicy, detail term.Detail) error {
	text, err := json.MarshalIndent(p.Policy, "", "  ")
	if err != nil {
		return fmt.Errorf("format the policy: %w", err)
	}
	e.Println(term.Pairs([]string{term.Row("ID", detail.ID(p.ID)), term.Row("Enabled", *p.Enabled), term.Row("Type", p.Type),
		term.Row("Target", target(p.Target)), term.Row("Min", *p.Min), term.Row("Max", *p.Max)}))
	e.Println("\n" + e.Bold("Policy:") + "\n" + string(text))
	return nil
}
