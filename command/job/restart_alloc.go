package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// errNotPlaced means that no node can run a replacement.
var errNotPlaced = errors.New("the replacement cannot be placed")

func groupNamed(name string) func(*api.TaskGroup) bool {
	return func(tg *api.TaskGroup) bool { return *tg.Name == name }
}

// restart restarts the tasks of one allocation, or replaces it.
func (r *restarter) restart(ctx context.Context, stub *api.AllocationListStub) error {
	q := inNamespace(ctx, stub.Namespace)
	a, _, err := r.client.Allocations().Info(stub.ID, q)
	if err != nil {
		return err
	}
	switch {
	case r.reschedule:
		return r.replace(ctx, a)
	case r.allTasks:
		r.say("Restarting all tasks in allocation %q for group %q", r.detail.ID(a.ID), a.TaskGroup)
		return r.client.Allocations().RestartAllTasks(a, q)
	case len(*r.tasks) == 0:
		r.say("Restarting running tasks in allocation %q for group %q", r.detail.ID(a.ID), a.TaskGroup)
		return r.client.Allocations().Restart(a, "", q)
	}
	for _, task := range *r.tasks {
		if stub.TaskStates[task] == nil {
			continue
		}
		r.say("Restarting task %q in allocation %q for group %q", task, r.detail.ID(a.ID), a.TaskGroup)
		if err := r.client.Allocations().Restart(a, task, q); err != nil {
			return fmt.Errorf("task %q: %w", task, err)
		}
	}
	return nil
}

// say prints a line of progress.
func (r *restarter) say(format string, a ...any) {
	r.env.Printf("    %s: %s\n", time.Now().Format(time.RFC3339), fmt.Sprintf(format, a...))
}

// replace stops an allocation and waits until its replacement runs. Sysbatch allocations have none.
func (r *restarter) replace(ctx context.Context, a *api.Allocation) error {
	r.say("Rescheduling allocation %q for group %q", r.detail.ID(a.ID), a.TaskGroup)
	q := inNamespace(ctx, a.Namespace)
	if r.noShutdownDelay {
		q.Params = map[string]string{"no_shutdown_delay": "true"}
	}
	stopped, err := r.client.Allocations().Stop(a, q)
	if err != nil {
		return err
	}
	if r.job.Type == "sysbatch" {
		return nil
	}
	next, err := r.replacement(ctx, a, stopped.EvalID)
	if err != nil {
		return err
	}
	return r.untilRuns(ctx, next)
}

// replacement waits for the allocation that replaces a, and returns its ID. An allocation of a system job has no
// link to it: it is the newer one of the group on the node.
func (r *restarter) replacement(ctx context.Context, a *api.Allocation, evalID string) (string, error) {
	var index uint64
	evaluated := false
	for {
		allocs, meta, err := r.client.Jobs().Allocations(r.job.ID, false, r.waiting(ctx, index))
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(allocs, func(b *api.AllocationListStub) bool { return r.replaces(a, b, allocs) })
		switch {
		case i >= 0:
			return allocs[i].ID, nil
		case evaluated:
			return "", fmt.Errorf("evaluation %q did not replace the allocation", r.detail.ID(evalID))
		}
		if evaluated, err = r.evaluated(ctx, evalID); err != nil {
			return "", err
		}
		if index = meta.LastIndex; evaluated {
			index = 0 // the next list is complete: do not wait for a change
		}
	}
}

// replaces reports whether b replaces a.
func (r *restarter) replaces(a *api.Allocation, b *api.AllocationListStub, all []*api.AllocationListStub) bool {
	if r.job.Type == "system" {
		return b.NodeID == a.NodeID && b.TaskGroup == a.TaskGroup && b.CreateIndex > a.CreateIndex && b.DesiredStatus == "run"
	}
	return slices.ContainsFunc(all, func(was *api.AllocationListStub) bool { return was.ID == a.ID && was.NextAllocation == b.ID })
}

// evaluated reports whether the evaluation of the stop is complete. The error is errNotPlaced if it could not place
// the replacement.
func (r *restarter) evaluated(ctx context.Context, evalID string) (bool, error) {
	eval, _, err := r.client.Evaluations().Info(evalID, inNamespace(ctx, r.job.Namespace))
	switch {
	case err != nil:
		return false, err
	case eval.Status == api.EvalStatusFailed:
		return false, fmt.Errorf("evaluation %q failed: %s", r.detail.ID(evalID), eval.StatusDescription)
	case len(eval.FailedTGAllocs) > 0:
		return false, fmt.Errorf("%w: see 'nomad eval status %s'", errNotPlaced, r.detail.ID(evalID))
	}
	return eval.Status == api.EvalStatusComplete, nil
}

// untilRuns waits until the allocation runs.
func (r *restarter) untilRuns(ctx context.Context, id string) error {
	var index uint64
	for {
		a, meta, err := r.client.Allocations().Info(id, r.waiting(ctx, index))
		if err != nil {
			return err
		}
		index = meta.LastIndex
		switch a.ClientStatus {
		case "running":
			r.say("Allocation %q replaced by %q", r.detail.ID(a.PreviousAllocation), r.detail.ID(id))
			return nil
		case "pending":
		default:
			return fmt.Errorf("the replacement %q is %s", r.detail.ID(id), a.ClientStatus)
		}
	}
}

// waiting returns the options of a query that waits up to ten seconds for a change after index.
func (r *restarter) waiting(ctx context.Context, index uint64) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: r.job.Namespace, WaitIndex: index, WaitTime: 10 * time.Second}).WithContext(ctx)
}
