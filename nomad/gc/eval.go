package gc

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// evals collects terminal evaluations and their allocations.
func (c *Collector) evals(ctx context.Context, s *sweep) error {
	var r reaping
	for e := range s.snap.Evals(nil) {
		age := c.cfg.EvalAfter
		if keepsRecord(e.Type) {
			age = c.cfg.BatchEvalAfter
		}
		s.collectEval(e, age, &r)
	}
	return c.reap(ctx, &r)
}

// collectEval adds the collectable parts of an evaluation to r. It reports whether all of it is
// collectable.
func (s *sweep) collectEval(e *nomad.Evaluation, age time.Duration, r *reaping) bool {
	if !e.TerminalStatus() || !s.old(e.ModifyTime, age) {
		return false
	}
	job := s.snap.Job(nil, e.Namespace, e.JobID)
	all := true
	for a := range s.snap.AllocsByEval(nil, e.ID) {
		if s.allocOver(a, job, age) {
			r.allocs = append(r.allocs, a.ID)
		} else {
			all = false
		}
	}
	if all {
		r.evals = append(r.evals, e.ID)
	}
	return all
}

// keepsRecord reports whether terminal allocations of the type record completed work that must not
// run again.
func keepsRecord(jobType string) bool {
	return jobType == nomad.JobTypeBatch || jobType == nomad.JobTypeSysBatch
}

// alive reports whether a scheduler may place allocations of the job.
func alive(job *nomad.Job) bool {
	return !job.Stopped() && job.Status != nomad.JobStatusDead
}

// allocOver reports whether the allocation is no longer needed.
func (s *sweep) allocOver(a *nomad.Allocation, job *nomad.Job, age time.Duration) bool {
	if !s.ended(a) || !s.old(a.ModifyTime, age) {
		return false
	}
	switch {
	case !alive(job):
		return true
	case a.Job != nil && a.Job.CreateIndex != job.CreateIndex:
		return true // of a purged job with the same name
	case keepsRecord(job.Type):
		return false
	}
	return !a.MayBeRescheduled()
}

// ended reports whether the allocation no longer runs: its client reported so, or its node is gone
// and the servers stopped it.
func (s *sweep) ended(a *nomad.Allocation) bool {
	if a.ClientTerminalStatus() {
		return true
	}
	if !a.ServerTerminalStatus() {
		return false
	}
	node := s.snap.Node(nil, a.NodeID)
	return node == nil || node.TerminalStatus()
}

// reaping lists what Eval.Reap must delete.
type reaping struct{ evals, allocs []string }

// reap deletes in requests of bounded size. Allocations come first, so that none remains without
// its evaluation.
func (c *Collector) reap(ctx context.Context, r *reaping) error {
	evals, allocs := r.evals, r.allocs
	for len(evals)+len(allocs) > 0 {
		req := &message.EvalReapRequest{WriteRequest: c.write()}
		req.Allocs, allocs = split(allocs, nomad.MaxUUIDsPerWriteRequest)
		req.Evals, evals = split(evals, nomad.MaxUUIDsPerWriteRequest-len(req.Allocs))
		if err := c.cfg.RPC.Call(ctx, "Eval.Reap", req, &message.GenericResponse{}); err != nil {
			return fmt.Errorf("reap %d evaluations and %d allocations: %w", len(req.Evals), len(req.Allocs), err)
		}
	}
	if n := len(r.evals) + len(r.allocs); n > 0 {
		c.cfg.Log.Debug("collected evaluations", "evals", len(r.evals), "allocs", len(r.allocs))
	}
	return nil
}
