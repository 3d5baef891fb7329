package alloc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

type statusOptions struct {
	short, stats bool
	detail       term.Detail
	formats      term.Formats
}

func statusCommand() term.Command {
	return term.Command{
		Name: "alloc status", Alias: []string{"alloc-status"}, Args: "[allocation]", MaxArgs: 1,
		Short: "Show an allocation with its tasks, ports and events",
		Setup: func(f *term.Flags) term.Run {
			o := &statusOptions{}
			f.BoolVar(&o.short, "short", false, "Show only the states of the tasks.")
			f.BoolVar(&o.stats, "stats", false, "Show the resource usage of the tasks.")
			f.DetailVar(&o.detail, "Show full IDs and the placement metrics.")
			o.formats.Declare(f)
			return o.run
		},
	}
}

func (o *statusOptions) run(ctx context.Context, e *term.Env) error {
	if e.Arg(0) == "" {
		return o.list(ctx, e)
	}
	at, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	c, a := at.client, at.alloc
	if o.formats.Wanted() {
		return o.formats.Print(e, a)
	}
	e.Println(o.describe(ctx, c, a))
	o.ports(e, a)
	o.checks(ctx, e, c, a)
	if o.short {
		e.Println("\n" + e.Bold("Tasks") + "\n" + shortStates(a))
		return nil
	}
	usage := o.usage(ctx, e, c, a)
	for _, name := range tasks(a) {
		o.task(e, a, name, usage)
	}
	if o.detail && a.Metrics != nil {
		e.Println("\n" + e.Bold("Placement Metrics"))
		e.Println(placement(a.Metrics))
	}
	return nil
}

func (o *statusOptions) list(ctx context.Context, e *term.Env) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	allocs, _, err := c.Allocations().List((&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("Error querying allocations: %w", err)
	case !o.formats.Wanted():
		return fmt.Errorf("Either an allocation ID, -json or -t is required")
	}
	return o.formats.Print(e, allocs)
}

func (o *statusOptions) describe(ctx context.Context, c *api.Client, a *api.Allocation) string {
	rows := []string{
		term.Row("ID", a.ID),
		term.Row("Eval ID", o.detail.ID(a.EvalID)),
		term.Row("Name", a.Name),
		term.Row("Node ID", o.detail.ID(a.NodeID)),
		term.Row("Node Name", a.NodeName),
		term.Row("Job ID", a.JobID),
		term.Row("Job Version", *a.Job.Version),
		term.Row("Client Status", a.ClientStatus),
		term.Row("Client Description", a.ClientDescription),
		term.Row("Desired Status", a.DesiredStatus),
		term.Row("Desired Description", a.DesiredDescription),
		term.Row("Created", o.detail.Since(time.Unix(0, a.CreateTime))),
		term.Row("Modified", o.detail.Since(time.Unix(0, a.ModifyTime))),
	}
	if a.DeploymentID != "" {
		rows = append(rows, term.Row("Deployment ID", o.detail.ID(a.DeploymentID)), term.Row("Deployment Health", health(a)))
		if a.DeploymentStatus != nil && a.DeploymentStatus.Canary {
			rows = append(rows, term.Row("Canary", true))
		}
	}
	if attempts := rescheduled(a); attempts != "" {
		rows = append(rows, term.Row("Reschedule Attempts", attempts))
	}
	if a.NextAllocation != "" {
		rows = append(rows, term.Row("Replacement Alloc ID", o.detail.ID(a.NextAllocation)))
	}
	if wait := followedIn(ctx, c, a); wait != "" {
		rows = append(rows, term.Row("Reschedule Eligibility", wait))
	}
	if m := a.Metrics; bool(o.detail) && m != nil {
		rows = append(rows, term.Row("Evaluated Nodes", m.NodesEvaluated), term.Row("Filtered Nodes", m.NodesFiltered),
			term.Row("Exhausted Nodes", m.NodesExhausted), term.Row("Allocation Time", m.AllocationTime),
			term.Row("Failures", m.CoalescedFailures))
	}
	return term.Pairs(rows)
}

func health(a *api.Allocation) string {
	if d := a.DeploymentStatus; d != nil && d.Healthy != nil {
		return map[bool]string{true: "healthy", false: "unhealthy"}[*d.Healthy]
	}
	return "unset"
}

// rescheduled returns the used and the allowed reschedule attempts. It returns "" if the
// allocation is not a replacement or the attempts are unlimited.
func rescheduled(a *api.Allocation) string {
	group := groupOf(a)
	if a.RescheduleTracker == nil || len(a.RescheduleTracker.Events) == 0 || group == nil || group.ReschedulePolicy == nil {
		return ""
	}
	p := group.ReschedulePolicy
	if p.Attempts == nil || *p.Attempts <= 0 || p.Interval == nil {
		return ""
	}
	used, since := 0, a.ModifyTime-int64(*p.Interval)
	for _, e := range a.RescheduleTracker.Events {
		if e.RescheduleTime > since {
			used++
		}
	}
	return fmt.Sprintf("%d/%d", used, *p.Attempts)
}

// followedIn returns the time until the follow-up evaluation of the allocation. It returns
// "" if there is none or it cannot be read.
func followedIn(ctx context.Context, c *api.Client, a *api.Allocation) string {
	if a.FollowupEvalID == "" {
		return ""
	}
	eval, _, err := c.Evaluations().Info(a.FollowupEvalID, query(ctx, a))
	if err != nil {
		return ""
	}
	wait := time.Until(eval.WaitUntil)
	if wait <= 0 {
		return ""
	}
	return term.Duration(wait) + " from now"
}

func (o *statusOptions) ports(e *term.Env, a *api.Allocation) {
	if a.AllocatedResources == nil || len(a.AllocatedResources.Shared.Ports) == 0 {
		return
	}
	mode := ""
	rows := []string{"Label|Dynamic|Address"}
	for _, p := range a.AllocatedResources.Shared.Ports {
		dynamic := "yes"
		for _, n := range a.AllocatedResources.Shared.Networks {
			if slices.ContainsFunc(n.ReservedPorts, func(r api.Port) bool { return r.Label == p.Label }) {
				dynamic = "no"
			}
			if n.Mode != "" {
				mode = fmt.Sprintf(" (mode = %q)", n.Mode)
			}
		}
		addr := fmt.Sprintf("%s:%d", p.HostIP, p.Value)
		if p.To > 0 {
			addr += fmt.Sprintf(" -> %d", p.To)
		}
		rows = append(rows, term.Row("*"+p.Label, dynamic, addr))
	}
	e.Printf("\nAllocation Addresses%s:\n%s\n", mode, term.Table(rows))
}

func shortStates(a *api.Allocation) string {
	rows := []string{"Name|State|Last Event|Time|Lifecycle"}
	for _, name := range tasks(a) {
		s := a.TaskStates[name]
		if s == nil {
			rows = append(rows, term.Row(name, "pending", "", "", kind(a, name)))
			continue
		}
		last, at := "", ""
		if n := len(s.Events); n > 0 {
			last, at = s.Events[n-1].Type, term.UnixNano(s.Events[n-1].Time)
		}
		rows = append(rows, term.Row(name, s.State, last, at, kind(a, name)))
	}
	return term.Table(rows)
}

// usage returns the resource usage of the tasks, or nil if they don't run or the query
// fails.
func (o *statusOptions) usage(ctx context.Context, e *term.Env, c *api.Client, a *api.Allocation) *api.AllocResourceUsage {
	if a.ClientStatus != api.AllocClientStatusRunning {
		return nil
	}
	u, err := c.Allocations().Stats(a, query(ctx, a))
	if err != nil {
		if o.stats {
			e.Warnf("Couldn't retrieve stats: %v", err)
		}
		return nil
	}
	return u
}

func (o *statusOptions) task(e *term.Env, a *api.Allocation, name string, usage *api.AllocResourceUsage) {
	s := a.TaskStates[name]
	if s == nil {
		e.Printf("\n%s\n", e.Bold(fmt.Sprintf("Task %q is %q", name, "pending")))
		return
	}
	title := fmt.Sprintf("Task %q%s is %q", name, lifecycle(a, name), s.State)
	if s.Paused != "" {
		title += fmt.Sprintf(" (%s)", s.Paused)
	}
	e.Println("\n" + e.Bold(title))
	o.resources(e, a, name, usage)
	hostVolumes(e, a, name)
	e.Println("\nTask Events:")
	facts := []string{
		term.Row("Started At", term.Time(s.StartedAt)),
		term.Row("Finished At", term.Time(s.FinishedAt)),
		term.Row("Total Restarts", s.Restarts),
		term.Row("Last Restart", term.Time(s.LastRestart)),
	}
	if s.Isolation != "" { // clients of Nomad report none
		facts = append(facts, term.Row("Isolation", s.Isolation))
	}
	e.Println(term.Pairs(facts))
	e.Println("\nRecent Events:")
	rows := []string{"Time|Type|Description"}
	for _, ev := range slices.Backward(s.Events) {
		rows = append(rows, term.Row(term.UnixNano(ev.Time), ev.Type, ev.DisplayMessage))
	}
	e.Println(term.Table(rows))
}

// lifecycle returns the kind of a task in parentheses, or "" for a main task.
func lifecycle(a *api.Allocation, name string) string {
	if kind := kind(a, name); kind != mainTask {
		return " (" + kind + ")"
	}
	return ""
}

// mainTask is the kind of a task without a lifecycle block.
const mainTask = "main"

func kind(a *api.Allocation, name string) string {
	t := taskOf(a, name)
	switch {
	case t == nil || t.Lifecycle == nil || t.Lifecycle.Hook == "":
		return mainTask
	case t.Lifecycle.Sidecar:
		return t.Lifecycle.Hook + " sidecar"
	}
	return t.Lifecycle.Hook
}

func placement(m *api.AllocationMetric) string {
	lines := monitor.Metric(m, "")
	if len(m.ScoreMetaData) > 0 {
		lines = append(lines, scores(m.ScoreMetaData))
	}
	return strings.Join(lines, "\n")
}

// scores formats the scores of the best nodes as a table with a column for each scorer.
func scores(nodes []*api.NodeScoreMeta) string {
	scorers := map[string]bool{}
	for _, n := range nodes {
		for name := range n.Scores {
			scorers[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(scorers))
	rows := []string{strings.Join(slices.Concat([]string{"Node"}, names, []string{"final score"}), "|")}
	for _, n := range nodes {
		cells := []any{n.NodeID}
		for _, name := range names {
			cells = append(cells, fmt.Sprintf("%.3g", n.Scores[name]))
		}
		rows = append(rows, term.Row(append(cells, fmt.Sprintf("%.3g", n.NormScore))...))
	}
	return term.Table(rows)
}
