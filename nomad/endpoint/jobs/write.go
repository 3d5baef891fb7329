package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Deregister stops a job, or removes it if Purge is set. A missing job is not an error.
func (s *Service) Deregister(ctx context.Context, c *rpc.Call, req *message.JobDeregisterRequest) (*message.JobDeregisterResponse, error) {
	if req.JobID == "" {
		return nil, apierror.Errorf(400, "missing job ID for deregistering")
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
	index, err := s.Apply(ctx, message.JobDeregisterRequestType, entry)
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
func (s *Service) BatchDeregister(ctx context.Context, _ *rpc.Call,
	req *message.JobBatchDeregisterRequest) (*message.JobBatchDeregisterResponse, error) {
	if len(req.Jobs) == 0 {
		return nil, apierror.Errorf(400, "given no jobs to deregister")
	}
	index, err := s.Apply(ctx, message.JobBatchDeregisterRequestType,
		&message.JobBatchDeregisterRequest{Jobs: req.Jobs, SubmitTime: s.UnixNow()})
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
		return nil, apierror.Errorf(400, "missing job ID for evaluation")
	}
	ns := handler.NamespaceOf(req.Namespace)
	snap := s.Snapshot()
	job := snap.Job(nil, ns, req.JobID)
	switch {
	case job == nil:
		return nil, apierror.Errorf(404, "job not found")
	case job.IsPeriodic():
		return nil, apierror.Errorf(400, "can't evaluate periodic job")
	case job.IsParameterized():
		return nil, apierror.Errorf(400, "can't evaluate parameterized job")
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
	index, err := s.Apply(ctx, message.AllocUpdateDesiredTransitionRequestType, entry)
	if err != nil {
		return nil, err
	}
	out := &message.JobRegisterResponse{EvalID: eval.ID, EvalCreateIndex: index, JobModifyIndex: job.JobModifyIndex}
	out.Index = index
	return out, nil
}

// Stable marks a version of a job as stable or as not stable. If another version becomes the one that failed deployments
// revert to, the caller must have the rights that this version requires.
func (s *Service) Stable(ctx context.Context, c *rpc.Call, req *message.JobStabilityRequest) (*message.JobStabilityResponse, error) {
	ns := handler.NamespaceOf(req.Namespace)
	if req.JobID == "" {
		return nil, apierror.Errorf(400, "missing job ID for marking job as stable")
	}
	versions := s.Snapshot().JobVersions(nil, ns, req.JobID)
	i := slices.IndexFunc(versions, func(v *nomad.Job) bool { return v.Version == req.JobVersion })
	if i < 0 {
		return nil, apierror.Errorf(404, "job %q has no version %d", req.JobID, req.JobVersion)
	}
	before, marked := nomad.NewestStable(versions), *versions[i]
	marked.Stable, versions[i] = req.Stable, &marked
	if after := nomad.NewestStable(versions); after != nil && (before == nil || before.Version != after.Version) {
		if err := s.admission.Rights(admission.Caller(c.Access), after); err != nil {
			return nil, fmt.Errorf("version %d becomes the version that a failed deployment reverts to: %w", after.Version, err)
		}
	}
	index, err := s.Apply(ctx, message.JobStabilityRequestType, &message.JobStabilityRequest{
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
		return nil, apierror.Errorf(400, "missing job for validation")
	}
	view := s.admission.At(s.Snapshot())
	job, err := s.complete(c, view, submission{req.Job, req.WriteRequest, rights{acl.ReadJob}})
	if err != nil {
		return nil, err
	}
	out := &message.JobValidateResponse{DriverConfigValidated: true}
	warns, err := view.Check(admission.Planner(c.Access), job)
	if errors.Is(err, apierror.ErrPermissionDenied) {
		return nil, err
	}
	out.Warnings = joinLines(warns)
	if err != nil {
		out.Error, out.ValidationErrors = err.Error(), admission.Faults(err)
	}
	return out, nil
}
