package jobs

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Deregister stops a job, or removes it if Purge is set. A missing job is not an error.
func (s *Service) Deregister(ctx context.Context, c *rpc.Call, req *message.JobDeregisterRequest) (*message.JobDeregisterResponse, error) {
	if req.JobID == "" {
		return nil, nomad.Errorf(400, "missing job ID for deregistering")
	}
	ns, rights := handler.NamespaceOf(req.Namespace), []acl.NamespaceCapability{acl.SubmitJob, acl.PurgeJob}
	if !req.Purge {
		rights = append(rights, acl.DeregisterJob)
	}
	if err := c.Access.Need(acl.InNamespace(ns, rights...)); err != nil {
		return nil, err
	}
	snap := s.Snapshot()
	job := snap.Job(nil, ns, req.JobID)
	if job == nil { // not an error, since tools stop jobs that may be gone
		out := &message.JobDeregisterResponse{}
		out.Index = snap.Index()
		return out, nil
	}
	eval := s.JobEval(job, req.EvalPriority, nomad.EvalTriggerJobDeregister)
	entry := &message.JobDeregisterRequest{
		JobID: req.JobID, Purge: req.Purge, NoShutdownDelay: req.NoShutdownDelay, Eval: eval, SubmitTime: s.UnixNow(),
		WriteRequest: message.WriteRequest{Region: req.Region, Namespace: ns},
	}
	index, err := s.Apply(ctx, nomad.JobDeregisterRequestType, entry)
	if err != nil {
		return nil, err
	}
	out := &message.JobDeregisterResponse{JobModifyIndex: index}
	out.Index = index
	if eval != nil {
		out.EvalID, out.EvalCreateIndex = eval.ID, index
	}
	return out, nil
}

// BatchDeregister stops or purges several jobs with one log entry.
func (s *Service) BatchDeregister(ctx context.Context, _ *rpc.Call, req *message.JobBatchDeregisterRequest) (*message.JobBatchDeregisterResponse, error) {
	if len(req.Jobs) == 0 {
		return nil, nomad.Errorf(400, "given no jobs to deregister")
	}
	index, err := s.Apply(ctx, nomad.JobBatchDeregisterRequestType, &message.JobBatchDeregisterRequest{Jobs: req.Jobs, SubmitTime: s.UnixNow()})
	if err != nil {
		return nil, err
	}
	out := &message.JobBatchDeregisterResponse{}
	out.Index = index
	return out, nil
}

// Evaluate creates an evaluation for a job.
func (s *Service) Evaluate(ctx context.Context, _ *rpc.Call, req *message.JobEvaluateRequest) (*message.JobRegisterResponse, error) {
	if req.JobID == "" {
		return nil, nomad.Errorf(400, "missing job ID for evaluation")
	}
	ns := handler.NamespaceOf(req.Namespace)
	snap := s.Snapshot()
	job := snap.Job(nil, ns, req.JobID)
	switch {
	case job == nil:
		return nil, nomad.Errorf(404, "job not found")
	case job.IsPeriodic():
		return nil, nomad.Errorf(400, "can't evaluate periodic job")
	case job.IsParameterized():
		return nil, nomad.Errorf(400, "can't evaluate parameterized job")
	}
	eval := s.JobEval(job, 0, nomad.EvalTriggerJobRegister)
	entry := &message.AllocUpdateDesiredTransitionRequest{Allocs: map[string]*nomad.DesiredTransition{}, Evals: []*nomad.Evaluation{eval}}
	if req.EvalOptions.ForceReschedule {
		yes := true
		for a := range snap.AllocsByJob(nil, ns, req.JobID) {
			if a.AwaitsReplacement() {
				entry.Allocs[a.ID] = &nomad.DesiredTransition{ForceReschedule: &yes}
			}
		}
	}
	index, err := s.Apply(ctx, nomad.AllocUpdateDesiredTransitionRequestType, entry)
	if err != nil {
		return nil, err
	}
	out := &message.JobRegisterResponse{EvalID: eval.ID, EvalCreateIndex: index, JobModifyIndex: job.JobModifyIndex}
	out.Index = index
	return out, nil
}

// Stable marks a version of a job as stable or as not stable.
func (s *Service) Stable(ctx context.Context, _ *rpc.Call, req *message.JobStabilityRequest) (*message.JobStabilityResponse, error) {
	ns := handler.NamespaceOf(req.Namespace)
	if req.JobID == "" {
		return nil, nomad.Errorf(400, "missing job ID for marking job as stable")
	}
	if s.Snapshot().JobVersion(nil, ns, req.JobID, req.JobVersion) == nil {
		return nil, nomad.Errorf(404, "job %q has no version %d", req.JobID, req.JobVersion)
	}
	index, err := s.Apply(ctx, nomad.JobStabilityRequestType, &message.JobStabilityRequest{
		JobID: req.JobID, JobVersion: req.JobVersion, Stable: req.Stable, WriteRequest: message.WriteRequest{Namespace: ns}})
	if err != nil {
		return nil, err
	}
	out := &message.JobStabilityResponse{}
	out.Index = index
	return out, nil
}

// Validate returns the errors and warnings of a job. It stores nothing.
func (s *Service) Validate(_ context.Context, c *rpc.Call, req *message.JobValidateRequest) (*message.JobValidateResponse, error) {
	if req.Job == nil {
		return nil, nomad.Errorf(400, "missing job for validation")
	}
	job, err := s.complete(c, req.Job, req.WriteRequest, acl.ReadJob)
	if err != nil {
		return nil, err
	}
	if err := NeedPrivilege(c, job); err != nil {
		return nil, err
	}
	out := &message.JobValidateResponse{DriverConfigValidated: true}
	warns := s.warnings(job)
	if err = s.notOfServers(job); err == nil {
		var more []string
		more, err = s.validate(job)
		warns = append(warns, more...)
	}
	out.Warnings = joinLines(warns)
	if err == nil {
		err = s.fits(job)
	}
	if err != nil {
		out.Error, out.ValidationErrors = err.Error(), faults(err)
	}
	return out, nil
}

// faults returns the messages of a joined error.
func faults(err error) []string {
	var out []string
	for _, e := range parts(err) {
		out = append(out, e.Error())
	}
	return out
}
