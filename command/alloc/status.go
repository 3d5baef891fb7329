package alloc

import (
	"context"
	"fmt"
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
		Short: "Show an allocation: its tasks, ports, events",
		Setup: func(f *term.Flags) term.Run {
			o := &statusOptions{}
			f.BoolVar(&o.short, "short", false, "Show the tasks' states only.")
			f.BoolVar(&o.stats, "stats", false, "Show what the tasks use.")
			f.DetailVar(&o.detail, "Show full IDs and how the node was chosen.")
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
	e.Println(o.describe(a))
	o.ports(e, a)
	if o.short {
		e.Println("\n" + shortStates(a))
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
		return fmt.Errorf("This command takes one of: an allocation's ID, -json, -t")
	}
	return o.formats.Print(e, allocs)
}

func (o *statusOptions) describe(a *api.Allocation) string {
	now := time.Now()
	rows := []string{
		term.Row("ID", o.detail.ID(a.ID)),
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
		term.Row("Created", term.Ago(time.Unix(0, a.CreateTime), now)),
		term.Row("Modified", term.Ago(time.Unix(0, a.ModifyTime), now)),
	}
	if a.DeploymentID != "" {
		health := "unset"
		if d := a.DeploymentStatus; d != nil && d.Healthy != nil {
			health = map[bool]string{true: "healthy", false: "unhealthy"}[*d.Healthy]
		}
		rows = append(rows, term.Row("Deployment ID", o.detail.ID(a.DeploymentID)), term.Row("Deployment Health", health))
	}
	if a.FollowupEvalID != "" {
		rows = append(rows, term.Row("Reschedule Evaluation", o.detail.ID(a.FollowupEvalID)))
	}
	if a.NextAllocation != "" {
		rows = append(rows, term.Row("Replacement Alloc ID", o.detail.ID(a.NextAllocation)))
	}
	return term.Pairs(rows)
}

func (o *statusOptions) ports(e *term.Env, a *api.Allocation) {
	if a.AllocatedResources == nil || len(a.AllocatedResources.Shared.Ports) == 0 {
		return
	}
	rows := []string{"Label|Dynamic|Address"}
	for _, p := range a.AllocatedResources.Shared.Ports {
		dynamic := "yes"
		for _, n := range a.AllocatedResources.Shared.Networks {
			if slices.ContainsFunc(n.ReservedPorts, func(r api.Port) bool { return r.Label == p.Label }) {
				dynamic = "no"
			}
		}
		addr := fmt.Sprintf("%s:%d", p.HostIP, p.Value)
		if p.To > 0 && p.To != p.Value {
			addr += fmt.Sprintf(" -> %d", p.To)
		}
		rows = append(rows, term.Row("*"+p.Label, dynamic, addr))
	}
	e.Println("\n" + e.Bold("Allocation Addresses"))
	e.Println(term.Table(rows))
}

func shortStates(a *api.Allocation) string {
	rows := []string{"Name|State|Last Event|Time"}
	for _, name := range tasks(a) {
		s := a.TaskStates[name]
		if s == nil {
			rows = append(rows, term.Row(name, "pending", "", ""))
			continue
		}
		last, at := "", ""
		if n := len(s.Events); n > 0 {
			last, at = s.Events[n-1].Type, term.UnixNano(s.Events[n-1].Time)
		}
		rows = append(rows, term.Row(name, s.State, last, at))
	}
	return term.Table(rows)
}

// usage reads what the tasks use now, nil when they don't run or can't be asked.
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
	e.Println("\n" + e.Bold(title))
	e.Println("Task Resources:\n" + o.resources(a, name, usage))
	e.Println("\nTask Events:")
	e.Println(term.Pairs([]string{
		term.Row("Started At", term.Time(s.StartedAt)),
		term.Row("Finished At", term.Time(s.FinishedAt)),
		term.Row("Total Restarts", s.Restarts),
		term.Row("Last Restart", term.Time(s.LastRestart)),
	}))
	e.Println("\nRecent Events:")
	rows := []string{"Time|Type|Description"}
	for _, ev := range slices.Backward(s.Events) {
		rows = append(rows, term.Row(term.UnixNano(ev.Time), ev.Type, ev.DisplayMessage))
	}
	e.Println(term.Table(rows))
}

// lifecycle tells of a task that is not a main one.
func lifecycle(a *api.Allocation, name string) string {
	for _, t := range groupTasks(a) {
		if t.Name != name || t.Lifecycle == nil || t.Lifecycle.Hook == "" {
			continue
		}
		if t.Lifecycle.Sidecar {
			return " (" + t.Lifecycle.Hook + " sidecar)"
		}
		return " (" + t.Lifecycle.Hook + ")"
	}
	return ""
}

func (o *statusOptions) resources(a *api.Allocation, name string, usage *api.AllocResourceUsage) string {
	cpu, memory, disk := "", "", ""
	if r := a.AllocatedResources; r != nil {
		disk = fmt.Sprintf("%d MiB", r.Shared.DiskMB)
		if t := r.Tasks[name]; t != nil {
			cpu = fmt.Sprintf("%d MHz", t.Cpu.CpuShares)
			memory = fmt.Sprintf("%d MiB", t.Memory.MemoryMB)
		}
	}
	if usage != nil && usage.Tasks[name] != nil && usage.Tasks[name].ResourceUsage != nil {
		u := usage.Tasks[name].ResourceUsage
		if u.CpuStats != nil {
			cpu = fmt.Sprintf("%.0f/%s", u.CpuStats.TotalTicks, cpu)
		}
		if u.MemoryStats != nil {
			memory = term.Bytes(max(u.MemoryStats.RSS, u.MemoryStats.Usage)) + "/" + memory
		}
	}
	return term.Table([]string{"CPU|Memory|Disk", term.Row(cpu, memory, disk)})
}

func placement(m *api.AllocationMetric) string {
	lines := monitor.Metric(m, "")
	if len(m.ScoreMetaData) > 0 {
		rows := []string{"Node|Final Score"}
		for _, s := range m.ScoreMetaData {
			rows = append(rows, term.Row(s.NodeID, fmt.Sprintf("%.3g", s.NormScore)))
		}
		lines = append(lines, term.Table(rows))
	}
	return strings.Join(lines, "\n")
}
