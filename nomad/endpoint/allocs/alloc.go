package allocs

import (
	"context"
	"iter"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Listing describes lists of allocations. Filters cannot access signed identities.
func Listing(q *message.QueryOptions, o page.Order) page.List[*nomad.Allocation] {
	return page.List[*nomad.Allocation]{Opts: q, Order: o,
		At: func(a *nomad.Allocation) page.Cursor {
			return o.At(a.CreateIndex, a.ID)
		},
		Filtered: func(a *nomad.Allocation) any { return a.WithoutIdentities() }}
}

// List lists the stubs of the allocations that the caller may read.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.AllocListRequest) (*message.AllocListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.AllocListResponse) error {
			all, order := listed(snap, ws, &req.QueryOptions)
			all, err := handler.Within(snap, handler.Scope{Namespace: req.Namespace, May: handler.Grants(c, acl.ReadJob)}, all,
				func(a *nomad.Allocation) string { return a.Namespace })
			if err != nil {
				return err
			}
			allocs, next, err := Listing(&req.QueryOptions, order).Page(all)
			if err != nil {
				return err
			}
			out.Allocations = page.Each(allocs, func(a *nomad.Allocation) *nomad.AllocListStub { return a.Stub(req.Fields) })
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableAllocs)
			return nil
		})
}

// listed returns the allocations of a list request in the order of the list.
func listed(snap *state.Snapshot, ws memdb.WatchSet, q *message.QueryOptions) (iter.Seq[*nomad.Allocation], page.Order) {
	switch {
	case q.Prefix != "":
		return snap.AllocsByPrefix(ws, q.Prefix), page.ByID
	case q.Reverse:
		return snap.LatestAllocs(ws), page.ByCreation.Stored()
	}
	return snap.AllocsByCreation(ws), page.ByCreation.Stored()
}

// Get returns one allocation.
func (s *Service) Get(ctx context.Context, c *rpc.Call, req *message.AllocSpecificRequest) (*message.SingleAllocResponse, error) {
	out, err := handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleAllocResponse) error {
			if req.AllocID == "" {
				return apierror.ErrMissingAllocID
			}
			alloc := snap.Alloc(nil, req.AllocID)
			if !mayRead(snap, c, alloc) { // the same for a missing allocation
				snap.Allocs(ws)
				out.Index = snap.TableIndex(state.TableAllocs)
				return nil
			}
			snap.Alloc(ws, req.AllocID)
			out.Alloc, out.Index = alloc.Public(), alloc.ModifyIndex
			return nil
		})
	if err != nil || out.Alloc != nil {
		return out, err
	}
	c.Access.MarkChecked()
	if authz.NodeID(c.Identity) != "" {
		return out, nil // a node expects an empty response
	}
	return out, handler.NotFoundOrHidden(c, apierror.UnknownAlloc(req.AllocID), acl.ReadJob)
}

// GetAll returns allocations, including their signed identities, to the node that runs
// them.
func (s *Service) GetAll(ctx context.Context, c *rpc.Call, req *message.AllocsGetRequest) (*message.AllocsGetResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.AllocsGetResponse) error {
		out.Allocs = make([]*nomad.Allocation, 0, len(req.AllocIDs))
		for _, id := range req.AllocIDs {
			a := snap.Alloc(ws, id)
			if a == nil {
				return apierror.UnknownAlloc(id)
			}
			if err := own(snap, c.Identity, a); err != nil {
				return err
			}
			clone := *a // a client in the same process may modify it
			out.Allocs = append(out.Allocs, &clone)
			out.Index = max(out.Index, a.AllocModifyIndex)
		}
		if len(out.Allocs) == 0 {
			out.Index = snap.TableIndex(state.TableAllocs)
		}
		return nil
	})
}

// Stop stops an allocation, so that the scheduler replaces it.
func (s *Service) Stop(ctx context.Context, c *rpc.Call, req *message.AllocStopRequest) (*message.AllocStopResponse, error) {
	if req.AllocID == "" {
		return nil, apierror.ErrMissingAllocID
	}
	snap := s.Snapshot()
	alloc := snap.Alloc(nil, req.AllocID)
	if err := handler.NeedAlloc(c, alloc, req.AllocID, acl.AllocLifecycle); err != nil {
		return nil, err
	}
	yes := true
	move := &nomad.DesiredTransition{NoShutdownDelay: &req.NoShutdownDelay}
	if req.Reschedule {
		move.Reschedule = &yes
	} else {
		move.Migrate = &yes
	}
	return s.transition(ctx, snap, alloc, move)
}

// transition requests a transition of an allocation, with an evaluation of its job.
func (s *Service) transition(ctx context.Context, snap *state.Snapshot, alloc *nomad.Allocation,
	move *nomad.DesiredTransition) (*message.AllocStopResponse, error) {
	job := alloc.Job
	if current := snap.Job(nil, alloc.Namespace, alloc.JobID); current != nil {
		job = current
	}
	eval := nomad.NewEval(job, nomad.EvalTriggerAllocStop, s.Now())
	eval.JobModifyIndex = job.ModifyIndex
	index, err := s.Apply(ctx, message.AllocUpdateDesiredTransitionRequestType, &message.AllocUpdateDesiredTransitionRequest{
		Allocs: map[string]*nomad.DesiredTransition{alloc.ID: move}, Evals: []*nomad.Evaluation{eval}})
	if err != nil {
		return nil, err
	}
	out := &message.AllocStopResponse{EvalID: eval.ID}
	out.Index = index
	return out, nil
}

// UpdateTransition sets the desired transition of allocations and creates evaluations in the same write.
func (s *Service) UpdateTransition(ctx context.Context, _ *rpc.Call,
	req *message.AllocUpdateDesiredTransitionRequest) (*message.GenericResponse, error) {
	if len(req.Allocs) == 0 {
		return nil, apierror.Errorf(400, "must update at least one allocation")
	}
	return handler.Written(s.Apply(ctx, message.AllocUpdateDesiredTransitionRequestType,
		&message.AllocUpdateDesiredTransitionRequest{Allocs: req.Allocs, Evals: req.Evals}))
}

// Readable returns the stubs of the allocations that the caller may read.
func Readable(c *rpc.Call, all iter.Seq[*nomad.Allocation]) []*nomad.AllocListStub {
	out, may := []*nomad.AllocListStub{}, handler.Grants(c, acl.ReadJob)
	c.Access.MarkChecked() // an empty list needs no right
	for a := range all {
		if may(a.Namespace) {
			out = append(out, a.Stub(nil))
		}
	}
	return out
}
