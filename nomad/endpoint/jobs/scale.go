package jobs

import (
	"context"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

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

const (
	// maxScalingEvent is the maximum size of an encoded scaling event, which its caller writes.
	maxScalingEvent = 64 << 10
	// scaleAttempts is the number of attempts to scale a job that others change at the same time.
	scaleAttempts = 5
)

// Scale changes the count of a group and stores an event. Without a count it only stores the event.
func (s *Service) Scale(ctx context.Context, c *rpc.Call, req *message.JobScaleRequest) (*message.JobRegisterResponse, error) {
	group, ns := req.Target[nomad.ScalingTargetGroup], handler.NamespaceOf(req.Namespace)
	if err := s.scalable(c, req, group, ns); err != nil {
		return nil, err
	}
	event := &nomad.ScalingEvent{Time: s.UnixNow(), Count: req.Count, Message: req.Message, Error: req.Error, Meta: req.Meta}
	if b, err := codec.Encode(event); err != nil {
		return nil, apierror.Errorf(400, "invalid meta of the scaling event: %v", err)
	} else if len(b) > maxScalingEvent {
		return nil, apierror.Errorf(400, "the scaling event has %d bytes: the limit is %d", len(b), maxScalingEvent)
	}
	to := &scaling{JobScaleRequest: req, namespace: ns, group: group, event: event}
	out, err := s.scaleTo(ctx, c, to)
	for n := 1; err != nil && n < scaleAttempts && !req.EnforceIndex && isConflict(err); n++ {
		out, err = s.scaleTo(ctx, c, to)
	}
	if err != nil {
		return nil, err
	}
	if out.EvalID != "" {
		event.EvalID = &out.EvalID
	}
	out.Index, err = s.Apply(ctx, message.ScalingEventRegisterRequestType,
		&message.ScalingEventRequest{Namespace: ns, JobID: req.JobID, TaskGroup: group, ScalingEvent: event})
	return out, err
}

// scalable rejects a request that no job can satisfy, and one that the caller may not make now.
func (s *Service) scalable(c *rpc.Call, req *message.JobScaleRequest, group, ns string) error {
	if req.PolicyOverride {
		if err := c.Access.Need(acl.InNamespace(ns, acl.SentinelOverride)); err != nil {
			return err
		}
	}
	target := req.Target[nomad.ScalingTargetNamespace]
	switch {
	case req.JobID == "":
		return apierror.Errorf(400, "missing job ID for scaling")
	case group == "":
		return apierror.Errorf(400, "missing task group name for scaling action")
	case target != "" && target != ns:
		return apierror.Errorf(400, "namespace in payload did not match header")
	case req.Count != nil && *req.Count < 0:
		return apierror.Errorf(400, "scaling action count can't be negative")
	case req.Count != nil && req.Error:
		return apierror.Errorf(400, "scaling action should not contain count if error is true")
	}
	return nil
}

// isConflict reports whether the job was changed after it was read.
func isConflict(err error) bool {
	return strings.Contains(err.Error(), nomad.RegisterEnforceIndexErrPrefix)
}

// scaling is a request with what it changes. The previous count of the event is not set yet.
type scaling struct {
	*message.JobScaleRequest
	namespace, group string
	event            *nomad.ScalingEvent
}

// scaleTo registers the job with the new count, if there is one. It sets the previous count of the
// event.
func (s *Service) scaleTo(ctx context.Context, c *rpc.Call, req *scaling) (*message.JobRegisterResponse, error) {
	snap, ns, group := s.Snapshot(), req.namespace, req.group
	job := snap.Job(nil, ns, req.JobID)
	if job == nil {
		return nil, apierror.Errorf(404, "job %q not found", req.JobID)
	}
	tg := job.TaskGroup(group)
	if tg == nil {
		return nil, apierror.Errorf(400, "task group %q specified for scaling does not exist in job", group)
	}
	if req.EnforceIndex && req.JobModifyIndex != job.JobModifyIndex {
		return nil, apierror.Errorf(500, "%s %d: job exists with conflicting job modify index: %d",
			nomad.RegisterEnforceIndexErrPrefix, req.JobModifyIndex, job.JobModifyIndex)
	}
	req.event.PreviousCount = int64(tg.Count)
	out := &message.JobRegisterResponse{JobModifyIndex: job.JobModifyIndex}
	if req.Count == nil {
		return out, nil
	}
	scaled, err := s.scaled(snap, job, group, *req.Count)
	if err != nil {
		return nil, err
	}
	admitted, err := s.admission.At(snap).Admit(admission.For(c.Access, job), scaled)
	if err != nil {
		return nil, err
	}
	eval := s.JobEval(scaled, 0, nomad.EvalTriggerScaling)
	index, err := s.write(ctx, admitted, admission.Registration{Eval: eval, EnforceIndex: true, JobModifyIndex: job.JobModifyIndex,
		Submission: snap.JobSubmission(nil, ns, job.ID, job.Version)})
	if err != nil {
		return nil, handler.BadRequest(err)
	}
	out.JobModifyIndex, out.Index = index, index
	if eval != nil {
		out.EvalID, out.EvalCreateIndex = eval.ID, index
	}
	return out, nil
}

// scaled returns the job with the new count of a group.
func (s *Service) scaled(snap *state.Snapshot, job *nomad.Job, group string, count int64) (*nomad.Job, error) {
	if job.Type == nomad.JobTypeSystem && count > 1 {
		return nil, apierror.Errorf(400, "jobs of type %q can only be scaled between 0 and 1", job.Type)
	}
	if err := job.TaskGroup(group).Scaling.Admits(count); err != nil {
		return nil, err
	}
	if d := snap.LatestDeployment(nil, job.Namespace, job.ID); d != nil && d.Active() {
		return nil, apierror.Errorf(400, "job scaling blocked due to active deployment")
	}
	if count > int64(s.admission.MaxCount()) { // before the conversion to int
		return nil, apierror.Errorf(500, "job %q: a count of %d exceeds the job_max_count of the servers, which is %d", job.ID, count,
			s.admission.MaxCount())
	}
	out := codec.Copy(job)
	out.TaskGroup(group).Count = int(count)
	out.Stable, out.SubmitTime = false, s.UnixNow()
	return out, nil
}

// ScaleStatus returns the counts and the scaling events of a job, or nil if it does not exist.
func (s *Service) ScaleStatus(ctx context.Context, _ *rpc.Call,
	req *message.JobScaleStatusRequest) (*message.JobScaleStatusResponse, error) {
	if req.JobID == "" {
		return nil, apierror.Errorf(400, "missing job ID for scale status")
	}
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobScaleStatusResponse) error {
			ns := handler.NamespaceOf(req.Namespace)
			job := snap.Job(ws, ns, req.JobID)
			if job == nil {
				out.Index = snap.TableIndex(state.TableJobs)
				return nil
			}
			events := snap.JobScalingEvents(ws, ns, req.JobID)
			out.JobScaleStatus = scaleStatus(job, events)
			out.Index = job.ModifyIndex
			if events != nil {
				out.Index = max(out.Index, events.ModifyIndex)
			}
			for a := range snap.AllocsByJob(ws, ns, req.JobID) {
				out.Index = max(out.Index, a.ModifyIndex)
				if group := out.JobScaleStatus.TaskGroups[a.TaskGroup]; group != nil {
					group.Add(a)
				}
			}
			return nil
		})
}

// scaleStatus returns the status of a job without its allocations.
func scaleStatus(job *nomad.Job, events *nomad.JobScalingEvents) *message.JobScaleStatus {
	out := &message.JobScaleStatus{JobID: job.ID, Namespace: job.Namespace, JobCreateIndex: job.CreateIndex,
		JobModifyIndex: job.JobModifyIndex, JobStopped: job.Stopped(), TaskGroups: map[string]*message.TaskGroupScaleStatus{}}
	for _, tg := range job.TaskGroups {
		group := &message.TaskGroupScaleStatus{Desired: tg.Count}
		if events != nil {
			group.Events = events.ScalingEvents[tg.Name]
		}
		out.TaskGroups[tg.Name] = group
	}
	return out
}
