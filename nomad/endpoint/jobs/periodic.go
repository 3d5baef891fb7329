package jobs

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/internal/cron"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// ForcePeriodic launches a child of a periodic job now.
func (s *Service) ForcePeriodic(ctx context.Context, c *rpc.Call,
	req *message.PeriodicForceRequest) (*message.PeriodicForceResponse, error) {
	if req.JobID == "" {
		return nil, apierror.Errorf(400, "missing job ID for evaluation")
	}
	snap := s.Snapshot()
	job := snap.Job(nil, handler.NamespaceOf(req.Namespace), req.JobID)
	if job == nil {
		return nil, apierror.Errorf(404, "job not found")
	}
	out, err := s.periodic.Force(ctx, snap, admission.For(c.Access, job), job)
	if err == nil {
		rpc.Wrote(ctx)
	}
	return out, err
}

// nextLaunch returns the next launch of a valid job. It is the zero time if the job is not launched
// by itself.
func nextLaunch(job *nomad.Job, now time.Time) time.Time {
	if !job.PeriodicActive() {
		return time.Time{}
	}
	times, err := cron.Parse(job.Periodic.TimeZone, job.Periodic.Crons()...)
	if err != nil {
		return time.Time{} // validation has rejected such a job
	}
	return times.Next(now)
}
