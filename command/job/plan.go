package job

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

func planCommand() term.Command {
	return term.Command{
		Name: "job plan", Alias: []string{"plan"}, Args: "<path>", MinArgs: 1, MaxArgs: 1,
		Short: "Show what running a jobspec would change",
		Long: `Lets the scheduler work on the job without writing anything, and prints the difference
to the running job, what would be placed, updated or stopped, and the index to run it with.

Exits with 0 when nothing would change, 1 when something would, 255 for an error.`,
		Setup: func(f *term.Flags) term.Run {
			p := &plan{}
			p.declare(f)
			f.BoolVar(&p.diff, "diff", true, "Show the difference to the running job.")
			f.BoolVar(&p.override, "policy-override", false, "Override soft-mandatory policies.")
			f.DetailVar(&p.detail, "Show more of the difference.")
			f.BoolVar(&p.jsonOutput, "json-output", false, "Print the plan as JSON.")
			tmpl := f.String("t", "", "Print the plan with a Go `template`.")
			return func(ctx context.Context, e *term.Env) error {
				changes, err := p.run(ctx, e, *tmpl)
				switch {
				case err != nil:
					return &term.ExitError{Code: 255, Err: err}
				case changes:
					return term.Exit(1)
				}
				return nil
			}
		},
	}
}

type plan struct {
	source
	diff, override, jsonOutput bool
	detail                     term.Detail
}

// run prints the plan and says whether it changes anything.
func (p *plan) run(ctx context.Context, e *term.Env, tmpl string) (bool, error) {
	job, _, err := p.read(ctx, e, e.Arg(0))
	if err != nil {
		return false, err
	}
	c, err := e.Client()
	if err != nil {
		return false, err
	}
	resp, _, err := c.Jobs().PlanOpts(job, &api.PlanOptions{Diff: p.diff, PolicyOverride: p.override}, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return false, fmt.Errorf("Error during plan: %w", err)
	}
	if p.jsonOutput || tmpl != "" {
		f := term.NewFormats(p.jsonOutput, tmpl)
		return changes(resp), f.Print(e, resp)
	}
	if p.diff && resp.Diff != nil {
		e.Println(strings.TrimRight(Diff(resp.Diff, p.detail), "\n") + "\n")
	}
	dryRun(e, resp)
	if resp.Warnings != "" {
		e.Println(e.Bold("Job Warnings:\n" + resp.Warnings + "\n"))
	}
	e.Println(e.Bold(fmt.Sprintf("Job Modify Index: %d", resp.JobModifyIndex)))
	e.Printf("To submit the job with version verification run:\n\nnomad job run -check-index %d %s\n\n", resp.JobModifyIndex, e.Arg(0))
	e.Println("When running the job with the check-index flag, the job will only be run if the\njob modify index given matches the server-side version. If the index has changed,\nanother user has modified the job and the plan's results are potentially invalid.")
	return changes(resp), nil
}

func changes(resp *api.JobPlanResponse) bool {
	if resp.Annotations == nil {
		return false
	}
	for _, u := range resp.Annotations.DesiredTGUpdates {
		if u.Place+u.Migrate+u.Stop+u.InPlaceUpdate+u.DestructiveUpdate+u.Canary+u.Preemptions > 0 {
			return true
		}
	}
	return false
}

func dryRun(e *term.Env, resp *api.JobPlanResponse) {
	e.Println(e.Bold("Scheduler dry-run:"))
	if len(resp.FailedTGAllocs) == 0 {
		e.Printf("- All tasks successfully allocated.\n\n")
		return
	}
	e.Println("- WARNING: Failed to place all allocations.")
	for _, group := range slices.Sorted(maps.Keys(resp.FailedTGAllocs)) {
		m := resp.FailedTGAllocs[group]
		e.Printf("  Task Group %q (failed to place %d allocation(s)):\n%s\n", group, m.CoalescedFailures+1,
			strings.Join(monitor.Metric(m, "    "), "\n"))
	}
	e.Println()
}
