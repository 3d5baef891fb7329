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
	e := nomad.NewEval(job, trigger, c.Now())
	e.Priority, e.JobModifyIndex = min(priority, nomad.JobMaxPriority), job.JobModifyIndex // evaluations of the servers come first
	return e
}

// UpsertEvals writes evaluations and returns the index of their log entry. Evaluations of
// concurrent calls are written together.
func (c *Core) UpsertEvals(ctx context.Context, evals ...*nomad.Evaluation) (uint64, error) {
	return c.evals.Write(ctx, evals...)
}
