package gc

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// jobs collects dead jobs with their evaluations and allocations.
func (c *Collector) jobs(ctx context.Context, s *sweep) error {
	var r reaping
	var dead []*nomad.Job
	for j := range s.snap.Jobs(nil) {
		if !finished(j) || !s.old(j.SubmitTime, c.cfg.JobAfter) {
			continue
		}
		var own reaping
		if s.collectAll(j, c, &own) {
			r.evals = append(r.evals, own.evals...)
			r.allocs = append(r.allocs, own.allocs...)
			dead = append(dead, j)
		}
	}
	if err := c.reap(ctx, &r); err != nil {
		return err
	}
	return c.purge(ctx, dead)
}

// finished reports whether the job will never run again by itself.
func finished(j *nomad.Job) bool {
	if j.Status != nomad.JobStatusDead {
		return false
	}
	if j.Stop {
		return true
	}
	return keepsRecord(j.Type) && !j.IsPeriodic() && !j.IsParameterized()
}

// collectAll adds all objects of the job to r. It reports whether all of them are collectable.
func (s *sweep) collectAll(j *nomad.Job, c *Collector, r *reaping) bool {
	for e := range s.snap.EvalsByJob(nil, j.Namespace, j.ID) {
		if !e.TerminalStatus() || !s.old(e.ModifyTime, c.cfg.JobAfter) {
			return false
		}
		r.evals = append(r.evals, e.ID)
	}
	for a := range s.snap.AllocsByJob(nil, j.Namespace, j.ID) {
		if !s.allocOver(a, j, c.cfg.JobAfter) {
			return false
		}
		r.allocs = append(r.allocs, a.ID)
	}
	return true
}

// purge deletes the jobs that did not change since the snapshot.
func (c *Collector) purge(ctx context.Context, dead []*nomad.Job) error {
	now := c.cfg.Store().Snapshot()
	for len(dead) > 0 {
		var batch []*nomad.Job
		batch, dead = split(dead, nomad.MaxUUIDsPerWriteRequest)
		req := &message.JobBatchDeregisterRequest{
			Jobs:         make(map[nomad.NamespacedID]*message.JobDeregisterOptions, len(batch)),
			WriteRequest: c.write(),
		}
		for _, j := range batch {
			if cur := now.Job(nil, j.Namespace, j.ID); cur != nil && cur.JobModifyIndex == j.JobModifyIndex && finished(cur) {
				req.Jobs[j.NamespacedID()] = &message.JobDeregisterOptions{Purge: true}
			}
		}
		if len(req.Jobs) == 0 {
			continue
		}
		if err := c.cfg.RPC.Call(ctx, "Job.BatchDeregister", req, &message.JobBatchDeregisterResponse{}); err != nil {
			return fmt.Errorf("purge %d jobs: %w", len(req.Jobs), err)
		}
		c.cfg.Log.Debug("collected jobs", "count", len(req.Jobs))
	}
	return nil
}
