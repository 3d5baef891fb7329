package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func restartCommand() term.Command {
	return term.Command{
		Name: "job restart", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Restart or replace the allocations of a job, in batches",
		Long: `Restarts the running tasks of the allocations of the job in place, or replaces the allocations with -reschedule.
One batch follows the other. The command fails before a batch if a deployment of the job is active.

After an error, the command asks whether to continue (-on-error=ask), or exits (-on-error=fail). With -yes it continues
without a question, unless permission is denied or a replacement cannot be placed.`,
		Setup: func(f *term.Flags) term.Run {
			o := &restartOptions{}
			f.BoolVar(&o.allTasks, "all-tasks", false, "Restart all tasks, including tasks that have exited.")
			f.StringVar(&o.batchSize, "batch-size", "1", "The `number` of allocations in a batch, or a percentage such as 25%.")
			f.StringVar(&o.batchWait, "batch-wait", "0s", "The `duration` between two batches, or 'ask' to ask before each.")
			o.groups = f.Strings("group", "Restart only allocations of this `group`; may be repeated.")
			f.BoolVar(&o.noShutdownDelay, "no-shutdown-delay", false, "With -reschedule: ignore the shutdown_delay of groups and tasks.")
			f.StringVar(&o.onError, "on-error", "ask", "What to do after an error: 'ask' or 'fail'.")
			f.BoolVar(&o.reschedule, "reschedule", false, "Stop the allocations, and wait until their replacements run.")
			o.tasks = f.Strings("task", "Restart only this `task`; may be repeated.")
			f.BoolVar(&o.yes, "yes", false, "Don't ask.")
			f.DetailVar(&o.detail, "Print full IDs.")
			return o.run
		},
	}
}

type restartOptions struct {
	allTasks, noShutdownDelay, reschedule, yes bool
	batchSize, batchWait, onError              string
	groups, tasks                              *[]string
	detail                                     term.Detail
}

// restarter restarts the allocations of one job.
type restarter struct {
	*restartOptions
	env    *term.Env
	client *api.Client
	job    *api.JobListStub
	size   batchSize
	wait   time.Duration
	ask    bool // ask before each further batch
}

func (o *restartOptions) run(ctx context.Context, e *term.Env) error {
	r := &restarter{restartOptions: o, env: e}
	if err := r.parse(); err != nil {
		return err
	}
	var err error
	if r.client, r.job, err = find(ctx, e, e.Arg(0)); err != nil {
		return err
	}
	allocs, err := r.targets(ctx)
	switch {
	case err != nil:
		return err
	case len(allocs) == 0:
		e.Println("No allocations to restart")
		return nil
	}
	return r.restartAll(ctx, allocs)
}

// parse checks the flags.
func (r *restarter) parse() (err error) {
	if r.size, err = parseBatchSize(r.batchSize); err != nil {
		return err
	}
	switch {
	case (r.reschedule || r.allTasks) && len(*r.tasks) > 0:
		return errors.New("-reschedule and -all-tasks cannot be used with -task")
	case r.reschedule && r.allTasks:
		return errors.New("-reschedule and -all-tasks cannot be used together")
	case r.onError != "ask" && r.onError != "fail":
		return fmt.Errorf("Invalid value %q for -on-error: want ask or fail", r.onError)
	}
	if r.ask = r.batchWait == "ask"; !r.ask {
		if r.wait, err = time.ParseDuration(r.batchWait); err != nil || r.wait < 0 {
			return fmt.Errorf("Invalid value %q for -batch-wait: want a duration or ask", r.batchWait)
		}
	}
	if !r.yes && (r.ask || r.onError == "ask") && !r.env.IsTerminal() {
		return errors.New("-on-error=ask and -batch-wait=ask need a terminal: use -yes, or -on-error=fail")
	}
	return nil
}

// batchSize is a number of allocations, or a percentage of all.
type batchSize struct {
	n       int
	percent bool
}

func parseBatchSize(text string) (batchSize, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n <= 0 || percent && n > 100 {
		return batchSize{}, fmt.Errorf("Invalid value %q for -batch-size: want a number of at least 1, or a percentage up to 100%%", text)
	}
	return batchSize{n, percent}, nil
}

// of returns the size of the batches of total allocations. A percentage is rounded up.
func (b batchSize) of(total int) int {
	if !b.percent {
		return b.n
	}
	return (total*b.n + 99) / 100
}

// targets returns the allocations to restart: those that run or should run, are not replaced, and are selected by
// -group and -task.
func (r *restarter) targets(ctx context.Context) ([]*api.AllocationListStub, error) {
	q := inNamespace(ctx, r.job.Namespace)
	job, _, err := r.client.Jobs().Info(r.job.ID, q)
	if err != nil {
		return nil, fmt.Errorf("Error retrieving job: %w", err)
	}
	for _, name := range *r.groups {
		if !slices.ContainsFunc(job.TaskGroups, groupNamed(name)) {
			return nil, fmt.Errorf("Group %q not found in job %q", name, r.job.ID)
		}
	}
	allocs, _, err := r.client.Jobs().Allocations(r.job.ID, false, q)
	if err != nil {
		return nil, fmt.Errorf("Error retrieving allocations: %w", err)
	}
	return slices.DeleteFunc(allocs, func(a *api.AllocationListStub) bool { return !r.selects(a) }), nil
}

func (r *restarter) selects(a *api.AllocationListStub) bool {
	switch {
	case a.ClientStatus != "running" && a.DesiredStatus != "run", a.NextAllocation != "":
		return false
	case len(*r.groups) > 0 && !slices.Contains(*r.groups, a.TaskGroup):
		return false
	}
	return len(*r.tasks) == 0 || slices.ContainsFunc(*r.tasks, func(name string) bool { return a.TaskStates[name] != nil })
}

// restartAll restarts the allocations in batches.
func (r *restarter) restartAll(ctx context.Context, allocs []*api.AllocationListStub) error {
	size, failed := r.size.of(len(allocs)), 0
	for begin := 0; begin < len(allocs); begin += size {
		batch := allocs[begin:min(begin+size, len(allocs))]
		if begin > 0 {
			if err := r.pause(ctx); err != nil {
				return err
			}
		}
		if err := r.noDeployment(ctx); err != nil {
			return err
		}
		r.env.Printf("==> %s: Restarting %d of %d allocations\n", time.Now().Format(time.RFC3339), len(batch), len(allocs))
		for _, a := range batch {
			err := r.restart(ctx, a)
			if err == nil {
				continue
			}
			failed++
			err = fmt.Errorf("Error restarting allocation %q: %w", r.detail.ID(a.ID), err)
			if !r.goesOn(ctx, err) {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d allocations were not restarted", failed, len(allocs))
	}
	r.env.Printf("==> %s: Finished job restart\n", time.Now().Format(time.RFC3339))
	return nil
}

// pause waits between two batches.
func (r *restarter) pause(ctx context.Context) error {
	if r.ask {
		if !r.yes && !r.env.Confirm("Restart the next batch? [y/N]") {
			return errors.New("Job restart cancelled")
		}
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.wait):
		return nil
	}
}

// noDeployment returns an error while a deployment of the job is active.
func (r *restarter) noDeployment(ctx context.Context) error {
	d, _, err := r.client.Jobs().LatestDeployment(r.job.ID, inNamespace(ctx, r.job.Namespace))
	switch {
	case err != nil:
		return fmt.Errorf("Error retrieving deployment: %w", err)
	case d != nil && (d.Status == "running" || d.Status == "paused" || d.Status == "blocked" || d.Status == "pending"):
		return fmt.Errorf("Deployment %q is %q", r.detail.ID(d.ID), d.Status)
	}
	return nil
}

// goesOn reports whether the command continues after an error, which it prints if so.
func (r *restarter) goesOn(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, errNotPlaced) || api.StatusCode(err) == 403 {
		return false
	}
	if r.onError == "fail" {
		return false
	}
	r.env.Warnf("%v", err)
	return r.yes || r.env.Confirm("Go on with the next allocation? [y/N]")
}
