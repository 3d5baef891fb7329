package jobs

import (
	"context"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Revert registers an earlier version of a job again, as a new version.
func (s *Service) Revert(ctx context.Context, c *rpc.Call, req *message.JobRevertRequest) (*message.JobRegisterResponse, error) {
	ns := handler.NamespaceOf(req.Namespace)
	if err := c.Access.Need(acl.InNamespace(ns, acl.SubmitJob, acl.RevertJob)); err != nil {
		return nil, err
	}
	snap := s.Snapshot()
	current, target, err := reverts(snap, ns, req)
	if err != nil {
		return nil, err
	}
	view := s.admission.At(snap)
	job, err := s.complete(c, view, submission{codec.Copy(target), message.WriteRequest{Namespace: ns}, rights{acl.SubmitJob, acl.RevertJob}})
	if err != nil {
		return nil, err
	}
	identifyPolicies(snap, job)
	job.SubmitTime = s.UnixNow()
	admitted, err := view.Admit(admission.Reverter(c.Access, target), job)
	if err != nil {
		return nil, err
	}
	if err := s.writeGateways(ctx, job); err != nil {
		return nil, err
	}
	if job.WantsRSA() {
		if err := s.keys.EnsureRSA(ctx); err != nil {
			return nil, err
		}
	}
	eval := s.JobEval(job, 0, nomad.EvalTriggerJobRegister)
	index, err := s.write(ctx, admitted, admission.Registration{
		Submission: snap.JobSubmission(nil, ns, job.ID, target.Version), Eval: eval,
		EnforceIndex: true, JobModifyIndex: current.JobModifyIndex, // the version that was checked
	})
	if err != nil {
		return nil, handler.BadRequest(err)
	}
	out := &message.JobRegisterResponse{JobModifyIndex: index, Warnings: strings.Join(admitted.Warnings(), "\n")}
	out.Index = index
	if eval != nil {
		out.EvalID, out.EvalCreateIndex = eval.ID, index
	}
	return out, nil
}

// reverts returns the current version of the job and the version to register again.
func reverts(snap *state.Snapshot, ns string, req *message.JobRevertRequest) (current, target *nomad.Job, err error) {
	if req.JobID == "" {
		return nil, nil, apierror.Errorf(400, "missing job ID for revert")
	}
	current = snap.Job(nil, ns, req.JobID)
	switch {
	case current == nil:
		return nil, nil, apierror.Errorf(404, "job %q not found", req.JobID)
	case req.EnforcePriorVersion != nil && *req.EnforcePriorVersion != current.Version:
		return nil, nil, apierror.Errorf(400, "Current job has version %d; enforcing version %d", current.Version, *req.EnforcePriorVersion)
	case req.JobVersion == current.Version:
		return nil, nil, apierror.Errorf(400, "can't revert to current version")
	}
	if target = snap.JobVersion(nil, ns, req.JobID, req.JobVersion); target == nil {
		return nil, nil, apierror.Errorf(404, "job %q in namespace %q at version %d not found", req.JobID, ns, req.JobVersion)
	}
	return current, target, nil
}
