package eval

import (
	"context"
	"fmt"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func deleteCommand() term.Command {
	return term.Command{
		Name: "eval delete", Args: "[evaluation]", MaxArgs: 1,
		Short: "Delete an evaluation, or those that match a filter",
		Long: `Use this only when a large number of evaluations overloads the servers. Pause the evaluation broker first,
and resume it afterwards. Nothing is scheduled in between:

    nomad operator scheduler set-config -pause-eval-broker=true
    nomad eval delete -filter='Status == "pending" and JobID == "example"'
    nomad operator scheduler set-config -pause-eval-broker=false

An evaluation is in use if its job runs and one of its allocations runs, or failed and may still be
replaced. A filter skips such evaluations, and an ID of one is an error. A filter covers all
namespaces, unless -namespace, NOMAD_NAMESPACE or the context names one.

This requires a management token.`,
		Setup: func(f *term.Flags) term.Run {
			filter := f.String("filter", "", "Delete the evaluations that match this `expression`.")
			yes := f.Bool("yes", false, "With -filter, do not ask for confirmation.")
			return func(ctx context.Context, e *term.Env) error {
				switch id := e.Arg(0); {
				case id == "" && *filter == "":
					return fmt.Errorf("Either an evaluation ID or -filter is required")
				case id != "" && *filter != "":
					return fmt.Errorf("An evaluation ID and -filter exclude each other")
				case id != "":
					return deleteOne(ctx, e, id)
				}
				return deleteMatching(ctx, e, *filter, *yes)
			}
		},
	}
}

// paused returns an error if the evaluation broker is not paused.
func paused(ctx context.Context, c *api.Client) error {
	resp, _, err := c.Operator().SchedulerGetConfiguration((&api.QueryOptions{}).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("Error querying scheduler configuration: %w", err)
	case !resp.SchedulerConfig.PauseEvalBroker:
		return fmt.Errorf("Eval broker is not paused: run 'nomad operator scheduler set-config -pause-eval-broker=true' first")
	}
	return nil
}

// deleteOne deletes the evaluation whose ID begins with prefix.
func deleteOne(ctx context.Context, e *term.Env, prefix string) error {
	c, ev, err := find(ctx, e, prefix)
	if err != nil {
		return err
	}
	if err := paused(ctx, c); err != nil {
		return err
	}
	return remove(ctx, e, c, &api.EvalDeleteRequest{EvalIDs: []string{ev.ID}})
}

// deleteMatching deletes the evaluations that match the filter, after a confirmation.
func deleteMatching(ctx context.Context, e *term.Env, filter string, yes bool) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	if err := paused(ctx, c); err != nil {
		return err
	}
	where := "in all namespaces"
	if ns := e.ChosenNamespace(); ns != "" && ns != api.AllNamespacesNamespace {
		where = fmt.Sprintf("in namespace %q", ns)
		filter = fmt.Sprintf("Namespace == %s and (%s)", strconv.Quote(ns), filter)
	}
	count, _, err := c.Evaluations().Count((&api.QueryOptions{Namespace: api.AllNamespacesNamespace, Filter: filter}).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("Error counting evaluations: %w", err)
	case count.Count == 0:
		e.Printf("No evaluations match the filter %s\n", where)
		return nil
	}
	if !yes && !e.Confirm(fmt.Sprintf("Are you sure you want to delete %s by the filter %s? [y/N]", evaluations(count.Count), where)) {
		e.Println("Canceling deletion of evaluations")
		return nil
	}
	e.Printf("Deleting %s\n", evaluations(count.Count))
	return remove(ctx, e, c, &api.EvalDeleteRequest{Filter: filter})
}

// remove sends the deletion and prints its result.
func remove(ctx context.Context, e *term.Env, c *api.Client, req *api.EvalDeleteRequest) error {
	resp, _, err := c.Evaluations().DeleteOpts(req, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error deleting evaluations: %w", err)
	}
	e.Printf("Successfully deleted %s\n", evaluations(resp.Count))
	if req.Filter == "" {
		return nil
	}
	left, _, err := c.Evaluations().Count((&api.QueryOptions{Namespace: api.AllNamespacesNamespace, Filter: req.Filter}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error counting evaluations: %w", err)
	}
	if left.Count > 0 {
		e.Printf("Kept %s with allocations that run or may still be replaced\n", evaluations(left.Count))
	}
	return nil
}

// evaluations returns "1 evaluation", "2 evaluations", and so on.
func evaluations(n int) string {
	if n == 1 {
		return "1 evaluation"
	}
	return fmt.Sprintf("%d evaluations", n)
}
