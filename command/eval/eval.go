// Package eval implements the commands for evaluations: status, list and delete. They call an
// agent through package api and keep no state.
package eval

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{statusCommand(), listCommand(), deleteCommand()}
}

func statusCommand() term.Command {
	return term.Command{
		Name: "eval status", Alias: []string{"eval-status"}, Args: "[evaluation]", MaxArgs: 1,
		Short: "Show an evaluation with its allocations and placement failures",
		Setup: func(f *term.Flags) term.Run {
			follow := f.Bool("monitor", false, "Monitor the evaluation until it is complete.")
			detail := f.Detail("Show full IDs. If placements failed, also check the nodes again and show each check.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				switch {
				case e.Arg(0) == "" && formats.Wanted() && !*follow:
					return printAll(ctx, e, &formats)
				case e.Arg(0) == "":
					return fmt.Errorf("An evaluation ID is required: 'nomad eval list' lists evaluations")
				}
				c, ev, err := find(ctx, e, e.Arg(0))
				switch {
				case err != nil:
					return err
				case *follow:
					return monitor.New(e, c, ev.Namespace, *detail).Eval(ctx, ev.ID)
				case formats.Wanted():
					return formats.Print(e, ev)
				}
				return status{c, *detail}.print(ctx, e, ev)
			}
		},
	}
}

// printAll prints the evaluations of the namespace as JSON or with a template.
func printAll(ctx context.Context, e *term.Env, formats *term.Formats) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	evals, _, err := c.Evaluations().List((&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying evaluations: %w", err)
	}
	return formats.Print(e, evals)
}

// find returns the only evaluation whose ID begins with prefix, and the client for
// further requests.
func find(ctx context.Context, e *term.Env, prefix string) (*api.Client, *api.Evaluation, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	if len(prefix) < 2 {
		return nil, nil, fmt.Errorf("Identifier must contain at least two characters.")
	}
	evals, _, err := c.Evaluations().List((&api.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: e.Namespace()}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("Error querying evaluation: %w", err)
	}
	evals = slices.DeleteFunc(evals, func(ev *api.Evaluation) bool { return !strings.HasPrefix(ev.ID, prefix) })
	switch len(evals) {
	case 0:
		return nil, nil, fmt.Errorf("No evaluation(s) with prefix or id %q found", prefix)
	case 1:
	default:
		return nil, nil, fmt.Errorf("Prefix matched multiple evaluations\n\n%s", table(evals, term.Full))
	}
	ev, _, err := c.Evaluations().Info(evals[0].ID,
		(&api.QueryOptions{Namespace: evals[0].Namespace, Params: map[string]string{"related": "true"}}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("Error querying evaluation: %w", err)
	}
	return c, ev, nil
}

// status shows one evaluation.
type status struct {
	client *api.Client
	detail term.Detail
}

func (s status) print(ctx context.Context, e *term.Env, ev *api.Evaluation) error {
	rows := []string{
		term.Row("ID", s.detail.ID(ev.ID)), term.Row("Create Time", term.UnixNano(ev.CreateTime)), term.Row("Modify Time",
			term.UnixNano(ev.ModifyTime)),
		term.Row("Status", ev.Status), term.Row("Status Description", ev.StatusDescription), term.Row("Type", ev.Type),
		term.Row("TriggeredBy", ev.TriggeredBy), term.Row("Job ID", ev.JobID), term.Row("Namespace", ev.Namespace),
		term.Row("Priority", ev.Priority), term.Row("Placement Failures", len(ev.FailedTGAllocs) > 0),
	}
	for label, id := range map[string]string{"Previous Eval": ev.PreviousEval, "Next Eval": ev.NextEval, "Blocked Eval": ev.BlockedEval} {
		if id != "" {
			rows = append(rows, term.Row(label, s.detail.ID(id)))
		}
	}
	slices.Sort(rows[11:])
	e.Println(term.Pairs(rows))
	if len(ev.FailedTGAllocs) > 0 {
		e.Println("\n" + e.Bold("Failed Placements"))
		for _, group := range slices.Sorted(maps.Keys(ev.FailedTGAllocs)) {
			m := ev.FailedTGAllocs[group]
			e.Printf("Task Group %q (failed to place %d allocation(s)):\n%s\n", group, m.CoalescedFailures+1,
				strings.Join(monitor.Metric(m, "  "), "\n"))
		}
		if ev.BlockedEval != "" {
			e.Printf("\nEvaluation %q waiting for %s to place remainder\n", s.detail.ID(ev.BlockedEval), monitor.Waits(ev))
		}
	}
	if s.detail == term.Full && ev.JobID != "" && len(ev.FailedTGAllocs) > 0 {
		monitor.PrintExplanation(ctx, e, ev.Namespace, func(q *api.QueryOptions) (*api.JobExplanation, *api.QueryMeta, error) {
			return s.client.Jobs().Explain(ev.JobID, q)
		})
	}
	if ev.PlanAnnotations != nil && len(ev.PlanAnnotations.DesiredTGUpdates) > 0 {
		e.Println("\n" + e.Bold("Plan Annotations") + "\n" + annotations(ev.PlanAnnotations))
	}
	allocs, _, err := s.client.Evaluations().Allocations(ev.ID, (&api.QueryOptions{Namespace: ev.Namespace}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying allocations of evaluation: %w", err)
	}
	if len(allocs) == 0 {
		return nil
	}
	rows = []string{"ID|Node ID|Task Group|Version|Desired|Status"}
	for _, a := range allocs {
		rows = append(rows, term.Row(s.detail.ID(a.ID), s.detail.ID(a.NodeID), a.TaskGroup, a.JobVersion, a.DesiredStatus, a.ClientStatus))
	}
	e.Println("\n" + e.Bold("Allocations") + "\n" + term.Table(rows))
	return nil
}

// annotations formats the plan annotations of an evaluation as a table by task group.
func annotations(a *api.PlanAnnotations) string {
	rows := []string{"Task Group|Ignore|Place|Stop|InPlace|Destructive|Migrate|Canary|Preemptions"}
	for _, group := range slices.Sorted(maps.Keys(a.DesiredTGUpdates)) {
		u := a.DesiredTGUpdates[group]
		if u == nil {
			continue
		}
		rows = append(rows, term.Row(group, u.Ignore, u.Place, u.Stop, u.InPlaceUpdate, u.DestructiveUpdate, u.Migrate, u.Canary, u.Preemptions))
	}
	return term.Table(rows)
}

func listCommand() term.Command {
	return term.Command{
		Name: "eval list", Short: "List the evaluations",
		Setup: func(f *term.Flags) term.Run {
			q := &api.QueryOptions{Params: map[string]string{}}
			detail := f.Detail("Show full IDs.")
			job := f.String("job", "", "Show only evaluations of this `job`.")
			status := f.String("status", "", "Show only evaluations with this `status`.")
			perPage := f.Int("per-page", 0, "The maximum number of results per page.")
			f.StringVar(&q.NextToken, "page-token", "", "The token of the next page.")
			f.StringVar(&q.Filter, "filter", "", "Show only evaluations that match this `expression`.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				q.Namespace, q.PerPage = e.Namespace(), int32(*perPage)
				q.Params["job"], q.Params["status"] = *job, *status
				evals, meta, err := c.Evaluations().List(q.WithContext(ctx))
				switch {
				case err != nil:
					return fmt.Errorf("Error querying evaluations: %w", err)
				case formats.Wanted():
					return formats.Print(e, evals)
				case len(evals) == 0:
					e.Println("No evals found")
					return nil
				}
				e.Println(table(evals, *detail))
				if meta.NextToken != "" {
					e.Printf("\nResults have been paginated. To get the next page run:\n\nnomad eval list -page-token %s\n", meta.NextToken)
				}
				return nil
			}
		},
	}
}

func table(evals []*api.Evaluation, detail term.Detail) string {
	rows := []string{"ID|Priority|Triggered By|Job ID|Namespace|Node ID|Status|Placement Failures"}
	for _, ev := range evals {
		node := "<none>"
		if ev.NodeID != "" {
			node = detail.ID(ev.NodeID)
		}
		failures := fmt.Sprint(len(ev.FailedTGAllocs) > 0)
		if ev.Status == api.EvalStatusBlocked {
			failures = "N/A - In Progress"
		}
		rows = append(rows, term.Row(detail.ID(ev.ID), ev.Priority, ev.TriggeredBy, ev.JobID, ev.Namespace, node, ev.Status, failures))
	}
	return term.Table(rows)
}
