package job

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

// planError is the exit code of job plan after an error: 1 means changes.
const planError = 255

func planCommand() term.Command {
	return term.Command{
		Name: "job plan", Alias: []string{"plan"}, Args: "<path>", MinArgs: 1, MaxArgs: 1, UsageCode: planError,
		Short: "Show the changes that running a jobspec would make",
		Long: `Runs the scheduler on the job without writing to state. Prints the diff to the running job,
the allocations to place, update and stop, and the modify index for 'job run -check-index'.

Exit codes: 0 when no allocation would be created, moved or stopped, 1 when one would, 255 for an error.
The exit code for an unchanged job is 0, even if it cannot be placed.`,
		Setup: func(f *term.Flags) term.Run {
			p := &plan{}
			p.declare(f)
			p.declareVault(f)
			p.declareConsul(f)
			f.BoolVar(&p.diff, "diff", true, "Show the diff to the running job.")
			f.BoolVar(&p.override, "policy-override", false, "Override soft-mandatory policies.")
			f.DetailVar(&p.detail, "Show unchanged fields in the diff, the isolation levels of the tasks and each check of the nodes, too.")
			f.BoolVar(&p.jsonOutput, "json-output", false, "Print the plan as JSON.")
			tmpl := f.String("t", "", "Print the plan with a Go `template`.")
			return func(ctx context.Context, e *term.Env) error {
				changes, err := p.run(ctx, e, *tmpl)
				switch {
				case err != nil:
					return &term.ExitError{Code: planError, Err: err}
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

// run prints the plan and reports whether it would change allocations.
func (p *plan) run(ctx context.Context, e *term.Env, tmpl string) (bool, error) {
	job, _, err := p.read(ctx, e, e.Arg(0))
	if err != nil {
		return false, err
	}
	c, err := e.Client()
	if err != nil {
		return false, err
	}
	resp, _, err := c.Jobs().PlanOpts(job, &api.PlanOptions{Diff: true, PolicyOverride: p.override}, (&api.WriteOptions{}).WithContext(ctx))
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
	if text := monitor.VaultLogins(resp.Vault, resp.VaultOmitted, p.detail); text != "" {
		e.Println(e.Bold("Vault") + "\n" + text + "\n")
	}
	if p.detail == term.Full {
		isolation(e, resp.Isolation)
		monitor.PrintExplanation(ctx, e, e.Namespace(), func(q *api.QueryOptions) (*api.JobExplanation, *api.QueryMeta, error) {
			return c.Jobs().ExplainJob(job, q)
		})
		e.Println()
	}
	if resp.Warnings != "" {
		e.Println(e.Bold("Job Warnings:\n" + resp.Warnings + "\n"))
	}
	e.Println(e.Bold(fmt.Sprintf("Job Modify Index: %d", resp.JobModifyIndex)))
	e.Printf("To submit the job with version verification run:\n\n%s\n\n", p.runLine(e, resp.JobModifyIndex))
	e.Println("When running the job with the check-index flag, the job will only be run if the\n" +
		"job modify index given matches the server-side version. If the index has changed,\n" +
		"another user has modified the job and the plan's results are potentially invalid.")
	return changes(resp), nil
}

// runLine returns the command that registers the planned job.
func (p *plan) runLine(e *term.Env, index uint64) string {
	words := []string{"nomad job run -check-index", strconv.FormatUint(index, 10)}
	add := func(flag, value string) { words = append(words, "-"+flag+"="+quote(value)) }
	for _, v := range *p.vars {
		add("var", v)
	}
	for _, file := range *p.varFiles {
		add("var-file", file)
	}
	if ns := e.NamespaceFlag(); ns != "" {
		add("namespace", ns)
	}
	if p.consul != "" {
		add("consul-namespace", p.consul)
	}
	if p.json {
		words = append(words, "-json")
	}
	return strings.Join(append(words, e.Arg(0)), " ")
}

// quote quotes text as one word for a shell.
func quote(text string) string {
	if strings.ContainsAny(text, "\"\\$`!\n") {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return `"` + text + `"`
}

// changes reports whether allocations would be created, moved or stopped. It is false
// for an unchanged job, even if that has allocations to place.
func changes(resp *api.JobPlanResponse) bool {
	if resp.Annotations == nil || resp.Diff != nil && resp.Diff.Type == unchanged {
		return false
	}
	for _, u := range resp.Annotations.DesiredTGUpdates {
		if u.Place+u.Migrate+u.Stop+u.DestructiveUpdate+u.Canary > 0 {
			return true
		}
	}
	return false
}

func dryRun(e *term.Env, resp *api.JobPlanResponse) {
	e.Println(e.Bold("Scheduler dry-run:"))
	if now := time.Now(); !resp.NextPeriodicLaunch.IsZero() {
		e.Printf("- If submitted now, next periodic launch would be at %s.\n", inFuture(resp.NextPeriodicLaunch, now))
	}
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

// isolation prints the isolation level of each task, and those that the eligible nodes give it.
func isolation(e *term.Env, list []*api.TaskIsolation) {
	if len(list) == 0 { // the leader is of another build
		return
	}
	rows := []string{"Task Group|Task|At Most|Nodes"}
	for _, t := range list {
		var nodes []string
		for _, level := range slices.Sorted(maps.Keys(t.Nodes)) {
			nodes = append(nodes, fmt.Sprintf("%s on %d", level, t.Nodes[level]))
		}
		rows = append(rows, term.Row(t.TaskGroup, t.Task, t.Level, cmp.Or(strings.Join(nodes, ", "), "none can run it")))
	}
	e.Println(e.Bold("Isolation") + "\n" + term.Table(rows) + "\n")
}
