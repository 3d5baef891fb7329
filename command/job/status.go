package job

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
	short, evals, allAllocs bool
	detail                  term.Detail
	formats                 term.Formats
}

func statusCommand() term.Command {
	return term.Command{
		Name: "job status", Args: "[job]", MaxArgs: 1,
		Short: "Show the jobs, or one job with its allocations",
		Long: "-json and -t print a list, also for one job. Its elements have the fields Job, Summary, Allocations,\n" +
			"LatestDeployment and Evaluations.",
		Setup: func(f *term.Flags) term.Run {
			o := &statusOptions{}
			f.BoolVar(&o.short, "short", false, "Show only the job, without its allocations.")
			f.BoolVar(&o.evals, "evals", false, "Show the job's evaluations.")
			f.BoolVar(&o.allAllocs, "all-allocs", false, "Also show allocations of an earlier job with the same ID.")
			f.DetailVar(&o.detail, "Show full IDs and more details.")
			o.formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				if e.Arg(0) == "" {
					return o.list(ctx, e)
				}
				return o.one(ctx, e)
			}
		},
	}
}

func (o *statusOptions) list(ctx context.Context, e *term.Env) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	jobs, _, err := c.Jobs().List(inNamespace(ctx, e.Namespace()))
	if err != nil {
		return fmt.Errorf("Error querying jobs: %w", err)
	}
	if o.formats.Wanted() {
		return o.print(ctx, e, c, jobs...)
	}
	if len(jobs) == 0 {
		e.Println("No running jobs")
		return nil
	}
	e.Println(list(jobs, e.Namespace() == "*"))
	return nil
}

func (o *statusOptions) one(ctx context.Context, e *term.Env) error {
	c, stub, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	q := inNamespace(ctx, stub.Namespace)
	if o.formats.Wanted() {
		return o.print(ctx, e, c, stub)
	}
	job, _, err := c.Jobs().Info(stub.ID, q)
	if err != nil {
		return fmt.Errorf("Error querying job: %w", err)
	}
	allocs, _, err := c.Jobs().Allocations(stub.ID, o.allAllocs, q)
	if err != nil {
		return fmt.Errorf("Error querying job allocations: %w", err)
	}
	evals, _, err := c.Jobs().Evaluations(stub.ID, q)
	if err != nil {
		return fmt.Errorf("Error querying job evaluations: %w", err)
	}
	e.Println(describe(job))
	if o.short {
		return nil
	}
	if job.Periodic != nil || job.ParameterizedJob != nil && !job.Dispatched {
		return o.template(e, c, job, q)
	}
	if err := o.summary(e, c, job, q); err != nil {
		return err
	}
	o.evaluations(e, evals)
	if err := o.deployment(e, c, job, q); err != nil {
		return err
	}
	e.Println("\n" + e.Bold("Allocations"))
	e.Println(Allocs(allocs, o.detail))
	return nil
}

func describe(j *api.Job) string {
	status := *j.Status
	if j.Stop != nil && *j.Stop {
		status += " (stopped)"
	}
	rows := []string{
		term.Row("ID", *j.ID),
		term.Row("Name", *j.Name),
		term.Row("Submit Date", term.UnixNano(*j.SubmitTime)),
		term.Row("Type", *j.Type),
		term.Row("Priority", *j.Priority),
		term.Row("Datacenters", strings.Join(j.Datacenters, ",")),
		term.Row("Namespace", *j.Namespace),
		term.Row("Node Pool", *j.NodePool),
		term.Row("Status", status),
		term.Row("Periodic", j.Periodic != nil),
		term.Row("Parameterized", j.ParameterizedJob != nil && !j.Dispatched),
	}
	if j.Periodic != nil {
		rows = append(rows, term.Row("Next Periodic Launch", launchText(j, time.Now())))
	}
	if tasks := privilegedTasks(j); len(tasks) > 0 {
		rows = append(rows, term.Row("Privileged Tasks", strings.Join(tasks, ",")))
	}
	native, unmapped := consulServices(j)
	if len(native) > 0 {
		rows = append(rows, term.Row("Native Services", strings.Join(native, ",")+" (provider \"consul\" in the job file)"))
	}
	if len(unmapped) > 0 {
		rows = append(rows, term.Row("Consul Services", strings.Join(unmapped, ",")+" (registered by nodes with Consul)"))
	}
	return term.Pairs(rows)
}

// consulServices returns the names of services with provider "consul" in the job file, sorted: those that the servers
// registered natively, and those of a job that was stored without.
func consulServices(j *api.Job) (native, unmapped []string) {
	found := [2]map[string]bool{{}, {}}
	add := func(list []*api.Service) {
		for _, s := range list {
			switch {
			case s.DeclaredProvider == api.ServiceProviderConsul:
				found[0][s.Name] = true
			case s.Provider == api.ServiceProviderConsul:
				found[1][s.Name] = true
			}
		}
	}
	for _, tg := range j.TaskGroups {
		add(tg.Services)
		for _, t := range tg.Tasks {
			add(t.Services)
		}
	}
	return slices.Sorted(maps.Keys(found[0])), slices.Sorted(maps.Keys(found[1]))
}

// privilegedTasks returns the tasks with privileged = true, which the job file or the servers have set, as group/task.
func privilegedTasks(j *api.Job) (out []string) {
	for _, tg := range j.TaskGroups {
		for _, t := range tg.Tasks {
			if t.Privileged {
				out = append(out, *tg.Name+"/"+t.Name)
			}
		}
	}
	return out
}

func (o *statusOptions) summary(e *term.Env, c *api.Client, j *api.Job, q *api.QueryOptions) error {
	s, _, err := c.Jobs().Summary(*j.ID, q)
	if err != nil {
		return fmt.Errorf("Error querying job summary: %w", err)
	}
	rows := []string{"Task Group|Queued|Starting|Running|Failed|Complete|Lost|Unknown"}
	for _, name := range slices.Sorted(maps.Keys(s.Summary)) {
		g := s.Summary[name]
		rows = append(rows, term.Row(name, g.Queued, g.Starting, g.Running, g.Failed, g.Complete, g.Lost, g.Unknown))
	}
	e.Println("\n" + e.Bold("Summary"))
	e.Println(term.Table(rows))
	return nil
}

// evaluations prints the list with -evals or -verbose, and always the placement failures.
func (o *statusOptions) evaluations(e *term.Env, evals []*api.Evaluation) {
	slices.SortFunc(evals, func(a, b *api.Evaluation) int { return int(int64(b.CreateIndex) - int64(a.CreateIndex)) })
	if o.evals || bool(o.detail) {
		rows := []string{"ID|Priority|Triggered By|Status|Placement Failures"}
		for _, ev := range evals {
			rows = append(rows, term.Row(o.detail.ID(ev.ID), ev.Priority, ev.TriggeredBy, ev.Status, len(ev.FailedTGAllocs) > 0))
		}
		e.Println("\n" + e.Bold("Evaluations"))
		e.Println(term.Table(rows))
	}
	i := slices.IndexFunc(evals, func(ev *api.Evaluation) bool { return ev.Status != "blocked" })
	blocked := slices.IndexFunc(evals, func(ev *api.Evaluation) bool { return ev.Status == "blocked" })
	if i < 0 || blocked < 0 || len(evals[i].FailedTGAllocs) == 0 {
		return
	}
	e.Println("\n" + e.Bold("Placement Failure"))
	for _, group := range slices.Sorted(maps.Keys(evals[i].FailedTGAllocs)) {
		e.Printf("Task Group %q:\n%s\n", group, strings.Join(monitor.Metric(evals[i].FailedTGAllocs[group], "  "), "\n"))
	}
	if q := evals[blocked].QuotaLimitReached; q != "" {
		e.Printf("Evaluation %q is blocked by quota %q: see 'nomad quota status %s'\n", o.detail.ID(evals[blocked].ID), q, q)
	} else if len(evals[blocked].MissingNonNodeResources) > 0 {
		e.Printf("Evaluation %q waits for %s: see 'nomad volume status'\n", o.detail.ID(evals[blocked].ID), monitor.Waits(evals[blocked]))
	}
}

func (o *statusOptions) deployment(e *term.Env, c *api.Client, j *api.Job, q *api.QueryOptions) error {
	d, _, err := c.Jobs().LatestDeployment(*j.ID, q)
	if err != nil {
		return fmt.Errorf("Error querying latest job deployment: %w", err)
	}
	if d != nil {
		e.Println("\n" + e.Bold("Latest Deployment"))
		e.Println(monitor.DeploymentText(d, o.detail))
	}
	return nil
}

// Allocs formats allocations as a table, newest first.
func Allocs(allocs []*api.AllocationListStub, detail term.Detail) string {
	if len(allocs) == 0 {
		return "No allocations placed"
	}
	slices.SortFunc(allocs, func(a, b *api.AllocationListStub) int { return int(int64(b.CreateIndex) - int64(a.CreateIndex)) })
	rows := []string{"ID|Node ID|Task Group|Version|Desired|Status|Created|Modified"}
	if detail {
		rows[0] = "ID|Eval ID|Node ID|Node Name|Task Group|Version|Desired|Status|Created|Modified"
	}
	for _, a := range allocs {
		cells := []any{detail.ID(a.ID)}
		if detail {
			cells = append(cells, a.EvalID, a.NodeID, a.NodeName)
		} else {
			cells = append(cells, term.Short.ID(a.NodeID))
		}
		cells = append(cells, a.TaskGroup, a.JobVersion, a.DesiredStatus, a.ClientStatus,
			detail.Since(time.Unix(0, a.CreateTime)), detail.Since(time.Unix(0, a.ModifyTime)))
		rows = append(rows, term.Row(cells...))
	}
	return term.Table(rows)
}
