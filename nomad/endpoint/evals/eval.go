package evals

import (
	"context"
	"errors"
	"slices"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/endpoint/allocs"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// defaultDequeueWait is how long Eval.Dequeue waits if the request has no timeout.
const defaultDequeueWait = time.Second

// Dequeue gives an evaluation to a worker. It returns none if none is ready within the
// timeout.
func (s *Service) Dequeue(ctx context.Context, c *rpc.Call, req *message.EvalDequeueRequest) (*message.EvalDequeueResponse, error) {
	if len(req.Schedulers) == 0 {
		return nil, apierror.Errorf(400, "dequeue requires at least one scheduler type")
	}
	wait := req.Timeout
	if wait <= 0 {
		wait = defaultDequeueWait
	}
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	schedulers := req.Schedulers
	if c.ByCertificate() {
		schedulers = slices.DeleteFunc(slices.Clone(schedulers), func(t string) bool { return !schedules(t) })
	}
	eval, token, err := s.Broker.Dequeue(timed, schedulers)
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return nil, err
	}
	return s.dequeued(eval, token), nil
}

// schedules reports whether job schedulers process evaluations of the type. Servers that
// authenticate by certificate get no other types. A core evaluation carries the leader's
// token, and its follow-up calls are not open to them.
func schedules(evalType string) bool {
	switch evalType {
	case nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch:
		return true
	}
	return false
}

// written rejects an evaluation that the caller may not write; see schedules.
func written(c *rpc.Call, eval *nomad.Evaluation) error {
	if c.ByCertificate() && !schedules(eval.Type) {
		return apierror.Denied("write an evaluation of type %q: the identity of a server is required, a certificate is not sufficient", eval.Type)
	}
	return nil
}

// dequeued returns the response with the evaluation for a worker. Eval may be nil.
func (s *Service) dequeued(eval *nomad.Evaluation, token string) *message.EvalDequeueResponse {
	out := &message.EvalDequeueResponse{}
	if eval == nil {
		return out
	}
	if eval.Type == nomad.JobTypeCore { // its worker calls with the leader's token
		own := *eval
		own.LeaderACL = s.cfg.LeaderToken()
		eval = &own
	}
	out.Eval, out.Token = eval, token
	out.WaitIndex = s.waitIndex(eval)
	out.Index = out.WaitIndex
	return out
}

// waitIndex returns the index that a worker's snapshot must have reached. It covers all
// evaluations of the job, so that the worker sees the results of earlier ones.
func (s *Service) waitIndex(eval *nomad.Evaluation) uint64 {
	index := eval.ModifyIndex
	if eval.Type == nomad.JobTypeCore {
		return index
	}
	snap := s.Snapshot()
	for e := range snap.EvalsByJob(nil, eval.Namespace, eval.JobID) {
		index = max(index, e.ModifyIndex)
	}
	return index
}

// Ack ends the delivery of an evaluation that a worker has processed.
func (s *Service) Ack(_ context.Context, _ *rpc.Call, req *message.EvalAckRequest) (*message.GenericResponse, error) {
	return &message.GenericResponse{}, lost(s.Broker.Ack(req.EvalID, req.Token))
}

// Nack returns an evaluation that a worker could not process to the broker.
func (s *Service) Nack(_ context.Context, _ *rpc.Call, req *message.EvalAckRequest) (*message.GenericResponse, error) {
	return &message.GenericResponse{}, lost(s.Broker.Nack(req.EvalID, req.Token))
}

// lost gives the status 409 to the error of a worker that no longer holds its evaluation.
// Workers of other Nomad builds can cause it with only a certificate, so it is not a server
// error.
func lost(err error) error {
	if errors.Is(err, broker.ErrNotOutstanding) || errors.Is(err, broker.ErrTokenMismatch) {
		return apierror.Errorf(409, "%v", err)
	}
	return err
}

// checkToken rejects a write for an evaluation that the worker no longer holds.
func (s *Service) checkToken(id, token string) error {
	if id == "" || token == "" {
		return apierror.Errorf(400, "missing evaluation ID or token")
	}
	return lost(s.Broker.OutstandingReset(id, token))
}

// Update writes the evaluation that a worker is processing.
func (s *Service) Update(ctx context.Context, c *rpc.Call, req *message.EvalUpdateRequest) (*message.GenericResponse, error) {
	if len(req.Evals) != 1 {
		return nil, apierror.Errorf(400, "only a single eval can be updated")
	}
	if err := written(c, req.Evals[0]); err != nil {
		return nil, err
	}
	if err := s.checkToken(req.Evals[0].ID, req.EvalToken); err != nil {
		return nil, err
	}
	return s.write(ctx, req)
}

// Create writes a follow-up of an evaluation that a worker holds.
func (s *Service) Create(ctx context.Context, c *rpc.Call, req *message.EvalUpdateRequest) (*message.GenericResponse, error) {
	if len(req.Evals) != 1 {
		return nil, apierror.Errorf(400, "only a single eval can be created")
	}
	if err := written(c, req.Evals[0]); err != nil {
		return nil, err
	}
	eval := req.Evals[0]
	if eval.Type == nomad.JobTypeCore { // core evaluations are not part of the state
		s.Broker.Enqueue(eval)
		return &message.GenericResponse{}, nil
	}
	if err := s.checkToken(eval.PreviousEval, req.EvalToken); err != nil {
		return nil, err
	}
	if err := s.unknown(eval); err != nil {
		return nil, err
	}
	return s.write(ctx, req)
}

// unknown rejects an evaluation that already exists.
func (s *Service) unknown(eval *nomad.Evaluation) error {
	if s.Snapshot().Eval(nil, eval.ID) != nil {
		return apierror.Errorf(409, "evaluation %q already exists", eval.ID)
	}
	return nil
}

// Finish completes an evaluation. The first evaluation of the list is the completed one,
// the others are its follow-ups. All are written in one log entry. It also acks the
// evaluation and dequeues the next one, which saves three or four calls per evaluation. Nomad
// 2.0 does not have this method.
func (s *Service) Finish(ctx context.Context, _ *rpc.Call, req *message.EvalFinishRequest) (*message.EvalDequeueResponse, error) {
	if len(req.Evals) == 0 {
		return nil, apierror.Errorf(400, "no evaluation to acknowledge")
	}
	done := req.Evals[0]
	if err := s.checkToken(done.ID, req.EvalToken); err != nil {
		return nil, err
	}
	for _, e := range req.Evals[1:] {
		if e.PreviousEval != done.ID || e.Type == nomad.JobTypeCore {
			return nil, apierror.Errorf(400, "evaluation %q does not follow from %q", e.ID, done.ID)
		}
		if err := s.unknown(e); err != nil {
			return nil, err
		}
	}
	if _, err := s.UpsertEvals(ctx, req.Evals...); err != nil {
		return nil, err
	}
	if err := s.Broker.Ack(done.ID, req.EvalToken); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return &message.EvalDequeueResponse{}, nil // the caller is gone, so do not dequeue another one
	}
	return s.dequeued(s.Broker.TryDequeue(req.Schedulers)), nil
}

// Reblock blocks an evaluation of a worker again.
func (s *Service) Reblock(ctx context.Context, c *rpc.Call, req *message.EvalUpdateRequest) (*message.GenericResponse, error) {
	if len(req.Evals) != 1 {
		return nil, apierror.Errorf(400, "only a single eval can be reblocked")
	}
	if err := written(c, req.Evals[0]); err != nil {
		return nil, err
	}
	eval := req.Evals[0]
	if err := s.checkToken(eval.ID, req.EvalToken); err != nil {
		return nil, err
	}
	known := s.Snapshot().Eval(nil, eval.ID)
	switch {
	case known == nil:
		return nil, apierror.UnknownEval(eval.ID)
	case known.Status != nomad.EvalStatusBlocked:
		return nil, apierror.Errorf(400, "evaluation %q is not blocked", eval.ID)
	}
	s.cfg.Blocked.Reblock(eval, req.EvalToken)
	return &message.GenericResponse{}, nil
}

func (s *Service) write(ctx context.Context, req *message.EvalUpdateRequest) (*message.GenericResponse, error) {
	return handler.Written(s.UpsertEvals(ctx, req.Evals...))
}

// Reap deletes evaluations and allocations for the garbage collection.
func (s *Service) Reap(ctx context.Context, _ *rpc.Call, req *message.EvalReapRequest) (*message.GenericResponse, error) {
	return handler.Written(s.Apply(ctx, message.EvalDeleteRequestType, &message.EvalReapRequest{Evals: req.Evals, Allocs: req.Allocs}))
}

// Listing describes lists of evaluations.
func Listing(q *message.QueryOptions, o page.Order) page.List[*nomad.Evaluation] {
	return page.List[*nomad.Evaluation]{Opts: q, Order: o, At: func(e *nomad.Evaluation) page.Cursor {
		return o.At(e.CreateIndex, e.ID)
	}}
}

// List lists the evaluations that the caller may read.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.EvalListRequest) (*message.EvalListResponse, error) {
	if req.Filter != "" && (req.FilterJobID != "" || req.FilterEvalStatus != "") {
		return nil, apierror.Errorf(400, "Filter expression cannot be used with other filter parameters")
	}
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.EvalListResponse) error {
			all := snap.Evals(ws)
			if req.Prefix != "" {
				all = snap.EvalsByPrefix(ws, req.Prefix)
			}
			all, err := handler.Within(snap, handler.Scope{Namespace: req.Namespace, May: handler.Grants(c, acl.ReadJob)}, all,
				func(e *nomad.Evaluation) string { return e.Namespace })
			if err != nil {
				return err
			}
			wanted := page.Only(all, func(e *nomad.Evaluation) bool {
				return (req.FilterJobID == "" || e.JobID == req.FilterJobID) &&
					(req.FilterEvalStatus == "" || e.Status == req.FilterEvalStatus)
			})
			evals, next, err := Listing(&req.QueryOptions, page.CreationOrder(req.Prefix)).Page(wanted)
			if err != nil {
				return err
			}
			out.Evaluations = page.Each(evals, func(e *nomad.Evaluation) *nomad.Evaluation { return e })
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableEvals)
			return nil
		})
}

// Count counts the evaluations that the caller may read.
func (s *Service) Count(ctx context.Context, c *rpc.Call, req *message.EvalCountRequest) (*message.EvalCountResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.EvalCountResponse) error {
			all := snap.Evals(ws)
			if req.Prefix != "" {
				all = snap.EvalsByPrefix(ws, req.Prefix)
			}
			may := handler.Grants(c, acl.ReadJob)
			if ns := handler.NamespaceOf(req.Namespace); ns != nomad.AllNamespacesSentinel {
				may = func(namespace string) bool { return namespace == ns }
			}
			all = page.Only(all, func(e *nomad.Evaluation) bool { return may(e.Namespace) })
			opts := message.QueryOptions{Filter: req.Filter, AuthToken: req.AuthToken}
			evals, _, err := Listing(&opts, page.ByID).Page(all)
			out.Count = len(evals)
			out.Index = snap.TableIndex(state.TableEvals)
			return err
		})
}

// Get returns one evaluation.
func (s *Service) Get(ctx context.Context, c *rpc.Call, req *message.EvalSpecificRequest) (*message.SingleEvalResponse, error) {
	out, err := handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleEvalResponse) error {
			eval, may := snap.Eval(nil, req.EvalID), handler.Grants(c, acl.ReadJob)
			if eval == nil || !may(eval.Namespace) { // the same for a missing evaluation
				snap.Evals(ws)
				out.Index = snap.TableIndex(state.TableEvals)
				return nil
			}
			out.Eval = snap.Eval(ws, req.EvalID)
			out.Index = out.Eval.ModifyIndex
			if req.IncludeRelated {
				full := *out.Eval
				full.RelatedEvals = related(snap, ws, out.Eval, may)
				out.Eval = &full
			}
			return nil
		})
	if err != nil || out.Eval != nil {
		return out, err
	}
	c.Access.MarkChecked()
	return out, handler.NotFoundOrHidden(c, apierror.UnknownEval(req.EvalID), acl.ReadJob)
}

// related returns the evaluations linked to an evaluation: previous, next and blocked ones,
// transitively. It omits those that the caller may not read.
func related(snap *state.Snapshot, ws memdb.WatchSet, eval *nomad.Evaluation, may func(namespace string) bool) []*nomad.EvaluationStub {
	var out []*nomad.EvaluationStub
	seen := map[string]bool{eval.ID: true, "": true}
	todo := []string{eval.PreviousEval, eval.NextEval, eval.BlockedEval}
	for len(todo) > 0 {
		id := todo[0]
		todo = todo[1:]
		if seen[id] {
			continue
		}
		seen[id] = true
		if e := snap.Eval(ws, id); e != nil && may(e.Namespace) {
			out = append(out, e.Stub())
			todo = append(todo, e.PreviousEval, e.NextEval, e.BlockedEval)
		}
	}
	return out
}

// Allocations lists the allocations of an evaluation.
func (s *Service) Allocations(ctx context.Context, c *rpc.Call,
	req *message.EvalSpecificRequest) (*message.EvalAllocationsResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.EvalAllocationsResponse) error {
			out.Allocations = allocs.Readable(c, snap.AllocsByEval(ws, req.EvalID))
			out.Index = snap.TableIndex(state.TableAllocs)
			return nil
		})
}

// SubmitPlan submits a plan to the leader's plan queue.
func (s *Service) SubmitPlan(ctx context.Context, _ *rpc.Call, req *message.PlanRequest) (*message.PlanResponse, error) {
	if req.Plan == nil {
		return nil, apierror.Errorf(400, "cannot submit nil plan")
	}
	result, err := s.cfg.Plans.Submit(ctx, req.Plan)
	if err != nil {
		return nil, err
	}
	out := &message.PlanResponse{Result: result}
	out.Index = result.AllocIndex
	return out, nil
}
