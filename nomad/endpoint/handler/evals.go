package handler

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
)

// JobEval returns the evaluation for a change of a job. It is nil for periodic and
// parameterized jobs, which have no allocations of their own.
func (c *Core) JobEval(job *nomad.Job, priority int, trigger string) *nomad.Evaluation {
	if job.IsPeriodic() || job.IsParameterized() {
		return nil
	}
	if priority <= 0 {
		priority = job.Priority
	}
	priority = min(priority, nomad.JobMaxPriority) // evaluations of the servers come first
	now := c.UnixNow()
	return &nomad.Evaluation{
		ID: nomad.NewID(), Namespace: job.Namespace, Priority: priority, Type: job.Type,
		TriggeredBy: trigger, JobID: job.ID, JobModifyIndex: job.JobModifyIndex,
		Status: nomad.EvalStatusPending, CreateTime: now, ModifyTime: now,
	}
}

// UpsertEvals writes evaluations and returns the index of their log entry. Evaluations of
// concurrent calls are written together.
func (c *Core) UpsertEvals(ctx context.Context, evals ...*nomad.Evaluation) (uint64, error) {
	return c.evals.Write(ctx, evals...)
}
