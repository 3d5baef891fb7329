package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/golang/snappy"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits of a dispatch. The servers keep all of it with the child.
const (
	maxPayload    = 16 << 10
	maxMeta       = 64 << 10 // bytes of all keys and values
	maxToken      = 256      // bytes of the idempotency token
	maxIDTemplate = 128      // bytes of the prefix in the ID of the child
)

// Dispatch registers a child job of a parameterized job. A repeated request with the same
// idempotency token returns the existing child.
func (s *Service) Dispatch(ctx context.Context, c *rpc.Call, req *message.JobDispatchRequest) (*message.JobDispatchResponse, error) {
	if req.JobID == "" {
		return nil, apierror.Errorf(400, "missing parameterized job ID")
	}
	ns := handler.NamespaceOf(req.Namespace)
	snap := s.Snapshot()
	parent := snap.Job(nil, ns, req.JobID)
	switch {
	case parent == nil:
		return nil, apierror.Errorf(404, "parameterized job not found")
	case !parent.IsParameterized():
		return nil, apierror.Errorf(400, "Specified job %q is not a parameterized job", req.JobID)
	case parent.Stop:
		return nil, apierror.Errorf(400, "Specified job %q is stopped", req.JobID)
	}
	who := admission.For(c.Access, parent)
	if err := s.admission.Rights(who, parent); err != nil {
		return nil, err
	}
	if err := s.fitsParameters(req, parent.ParameterizedJob); err != nil {
		return nil, err
	}
	if out := dispatchedBefore(snap, parent, req.IdempotencyToken); out != nil {
		return out, nil
	}
	child := s.child(parent, req)
	admitted, err := s.admission.At(snap).Admit(who, child)
	if err != nil {
		return nil, err
	}
	eval := s.JobEval(child, 0, nomad.EvalTriggerJobRegister)
	index, err := s.write(ctx, admitted, admission.Registration{Eval: eval})
	if errors.Is(err, state.ErrDispatched) { // by a call at the same time
		if out := dispatchedBefore(s.Snapshot(), parent, req.IdempotencyToken); out != nil {
			return out, nil
		}
	}
	if err != nil {
		return nil, handler.BadRequest(err)
	}
	out := &message.JobDispatchResponse{DispatchedJobID: child.ID, JobCreateIndex: index}
	out.Index = index
	if eval != nil {
		out.EvalID, out.EvalCreateIndex = eval.ID, index
	}
	return out, nil
}

// child returns the job of a dispatch. It has no scaling policies, because a policy has one target.
func (s *Service) child(parent *nomad.Job, req *message.JobDispatchRequest) *nomad.Job {
	child := codec.Copy(parent.WithoutScaling())
	now := s.Now()
	child.ParentID = parent.ID
	child.ID = parent.ID + nomad.DispatchLaunchSuffix
	if req.IdPrefixTemplate != "" {
		child.ID += req.IdPrefixTemplate + "-"
	}
	child.ID += fmt.Sprintf("%d-%s", now.Unix(), nomad.NewID()[:8])
	child.Name = child.ID
	child.SubmitTime = now.UnixNano()
	child.Dispatched = true
	child.DispatchIdempotencyToken = req.IdempotencyToken
	child.Status, child.StatusDescription, child.Stable = "", "", false
	if req.Priority > 0 {
		child.Priority = req.Priority
	}
	if len(req.Payload) > 0 {
		child.Payload = snappy.Encode(nil, req.Payload)
	}
	if child.Meta == nil && len(req.Meta) > 0 {
		child.Meta = map[string]string{}
	}
	maps.Copy(child.Meta, req.Meta)
	return child
}

// fitsParameters rejects a payload, priority, ID prefix, token or metadata that the parent does not accept, or that
// exceeds a limit.
func (s *Service) fitsParameters(req *message.JobDispatchRequest, p *nomad.ParameterizedJobConfig) error {
	switch {
	case p.Payload == nomad.DispatchPayloadRequired && len(req.Payload) == 0:
		return apierror.Errorf(400, "Payload is not provided but required by parameterized job")
	case p.Payload == nomad.DispatchPayloadForbidden && len(req.Payload) > 0:
		return apierror.Errorf(400, "Payload provided but forbidden by parameterized job")
	case len(req.Payload) > maxPayload:
		return apierror.Errorf(400, "Payload exceeds maximum size; %d > %d", len(req.Payload), maxPayload)
	}
	if err := fitsMeta(req.Meta, p); err != nil {
		return err
	}
	switch {
	case req.Priority < 0 || req.Priority > s.admission.MaxPriority():
		return apierror.Errorf(400, "dispatch job priority must be between [%d, %d]", nomad.JobMinPriority, s.admission.MaxPriority())
	case len(req.IdempotencyToken) > maxToken:
		return apierror.Errorf(400, "the idempotency token has %d bytes: the limit is %d", len(req.IdempotencyToken), maxToken)
	}
	return fitsID(req.IdPrefixTemplate)
}

// fitsID rejects a prefix that must not be in the ID of a job. A slash would make a part of the ID look like the ID of
// another job.
func fitsID(prefix string) error {
	switch {
	case len(prefix) > maxIDTemplate:
		return apierror.Errorf(400, "the ID prefix of the dispatched job has %d bytes: the limit is %d", len(prefix), maxIDTemplate)
	case !utf8.ValidString(prefix) || strings.ContainsAny(prefix, `/\`) ||
		strings.ContainsFunc(prefix, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return apierror.Errorf(400, "the ID prefix %q of the dispatched job contains a slash, a space or a "+
			"character that cannot be printed: remove it", prefix)
	}
	return nil
}

// fitsMeta rejects too much metadata, keys that the parent does not permit, and the lack of required ones.
func fitsMeta(meta map[string]string, p *nomad.ParameterizedJobConfig) error {
	var unpermitted, missing []string
	size := 0
	for key, value := range meta {
		size += len(key) + len(value)
	}
	if size > maxMeta {
		return apierror.Errorf(400, "the metadata of the dispatch has %d bytes: the limit is %d", size, maxMeta)
	}
	for key := range meta {
		if !slices.Contains(p.MetaRequired, key) && !slices.Contains(p.MetaOptional, key) {
			unpermitted = append(unpermitted, key)
		}
	}
	for _, key := range p.MetaRequired {
		if _, ok := meta[key]; !ok {
			missing = append(missing, key)
		}
	}
	slices.Sort(unpermitted)
	if len(unpermitted) > 0 {
		return apierror.Errorf(400, "Dispatch request included unpermitted metadata keys: %v", unpermitted)
	}
	if len(missing) > 0 {
		return apierror.Errorf(400, "Dispatch did not provide required meta keys: %v", missing)
	}
	return nil
}

// dispatchedBefore returns the reply with the child that an earlier request with the same
// idempotency token created, or nil.
func dispatchedBefore(snap *state.Snapshot, parent *nomad.Job, token string) *message.JobDispatchResponse {
	child := snap.DispatchedWith(parent.Namespace, parent.ID, token)
	if child == nil {
		return nil
	}
	out := &message.JobDispatchResponse{DispatchedJobID: child.ID, JobCreateIndex: child.CreateIndex}
	out.Index = child.CreateIndex
	return out
}
