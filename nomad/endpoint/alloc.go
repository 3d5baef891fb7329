package endpoint

import (
	"context"
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// allocList describes lists of allocations. Filters cannot access signed identities.
func allocList(q *nomad.QueryOptions, o order) list[*nomad.Allocation] {
	return list[*nomad.Allocation]{opts: q, order: o,
		at: func(a *nomad.Allocation) cursor {
			if !o.sort {
				return cursor{id: a.ID}
			}
			return cursor{index: a.CreateIndex, id: a.ID}
		},
		filtered: func(a *nomad.Allocation) any { return a.WithoutIdentities() }}
}

func (s *Service) allocList(ctx context.Context, c *rpc.Call, req *nomad.AllocListRequest) (*nomad.AllocListResponse, error) {
	return readList(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.AllocListResponse) error {
		all := snap.Allocs(ws)
		if req.Prefix != "" {
			all = snap.AllocsByPrefix(ws, req.Prefix)
		}
		all, err := within(snap, req.Namespace, all, func(a *nomad.Allocation) string { return a.Namespace }, grants(c, acl.ReadJob))
		if err != nil {
			return err
		}
		allocs, next, err := allocList(&req.QueryOptions, creationOrder(req.Prefix)).page(all)
		if err != nil {
			return err
		}
		out.Allocations = each(allocs, func(a *nomad.Allocation) *nomad.AllocListStub { return a.Stub(req.Fields) })
		out.NextToken = next
		out.Index = snap.TableIndex(state.TableAllocs)
		return nil
	})
}

func (s *Service) allocGet(ctx context.Context, c *rpc.Call, req *nomad.AllocSpecificRequest) (*nomad.SingleAllocResponse, error) {
	out, err := read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.SingleAllocResponse) error {
		if req.AllocID == "" {
			return nomad.ErrMissingAllocID
		}
		alloc := snap.Alloc(nil, req.AllocID)
		if !readsAlloc(snap, c, alloc) { // the same for a missing allocation
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
	c.Access.Open()
	return out, notSeen(c, nomad.UnknownAlloc(req.AllocID), acl.ReadJob)
}

// allocGetAll returns allocations, including their signed identities, to the node that runs
// them.
func (s *Service) allocGetAll(ctx context.Context, c *rpc.Call, req *nomad.AllocsGetRequest) (*nomad.AllocsGetResponse, error) {
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.AllocsGetResponse) error {
		out.Allocs = make([]*nomad.Allocation, 0, len(req.AllocIDs))
		for _, id := range req.AllocIDs {
			a := snap.Alloc(ws, id)
			if a == nil {
				return nomad.UnknownAlloc(id)
			}
			if err := ownAlloc(snap, c.Identity, a); err != nil {
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

// ownAlloc rejects all callers except the node that the allocation was placed on. It also
// rejects that node after a purge. Its identity remains valid for registering again, but its
// allocations may have been replaced on another node.
func ownAlloc(snap *state.Snapshot, id *acls.AuthenticatedIdentity, a *nomad.Allocation) error {
	if err := authz.OwnAlloc(id, a); err != nil {
		return err
	}
	if snap.Node(nil, a.NodeID) == nil {
		return nomad.ErrNodeNotFound
	}
	return nil
}

// allocStop stops an allocation, so that the scheduler replaces it.
func (s *Service) allocStop(ctx context.Context, c *rpc.Call, req *nomad.AllocStopRequest) (*nomad.AllocStopResponse, error) {
	if req.AllocID == "" {
		return nil, nomad.ErrMissingAllocID
	}
	snap := s.snapshot()
	alloc := snap.Alloc(nil, req.AllocID)
	if err := needAlloc(c, alloc, req.AllocID, acl.AllocLifecycle); err != nil {
		return nil, err
	}
	job := alloc.Job
	if current := snap.Job(nil, alloc.Namespace, alloc.JobID); current != nil {
		job = current
	}
	now := s.unixNow()
	eval := &nomad.Evaluation{
		ID: nomad.NewID(), Namespace: alloc.Namespace, Priority: job.Priority, Type: job.Type,
		TriggeredBy: nomad.EvalTriggerAllocStop, JobID: job.ID, JobModifyIndex: job.ModifyIndex,
		Status: nomad.EvalStatusPending, CreateTime: now, ModifyTime: now,
	}
	yes := true
	move := &nomad.DesiredTransition{NoShutdownDelay: &req.NoShutdownDelay}
	if req.Reschedule {
		move.Reschedule = &yes
	} else {
		move.Migrate = &yes
	}
	index, err := s.apply(ctx, nomad.AllocUpdateDesiredTransitionRequestType, &nomad.AllocUpdateDesiredTransitionRequest{
		Allocs: map[string]*nomad.DesiredTransition{alloc.ID: move}, Evals: []*nomad.Evaluation{eval}})
	if err != nil {
		return nil, err
	}
	out := &nomad.AllocStopResponse{EvalID: eval.ID}
	out.Index = index
	return out, nil
}

func (s *Service) allocUpdateTransition(ctx context.Context, _ *rpc.Call, req *nomad.AllocUpdateDesiredTransitionRequest) (*nomad.GenericResponse, error) {
	if len(req.Allocs) == 0 {
		return nil, nomad.Errorf(400, "must update at least one allocation")
	}
	index, err := s.apply(ctx, nomad.AllocUpdateDesiredTransitionRequestType, &nomad.AllocUpdateDesiredTransitionRequest{Allocs: req.Allocs, Evals: req.Evals})
	if err != nil {
		return nil, err
	}
	out := &nomad.GenericResponse{}
	out.Index = index
	return out, nil
}

// needAlloc requires one of the rights on an allocation. Alloc is nil if it was not found.
func needAlloc(c *rpc.Call, alloc *nomad.Allocation, id string, ops ...acl.NamespaceCapability) error {
	namespace := ""
	if alloc != nil {
		namespace = alloc.Namespace
	}
	return needOf(c, namespace, nomad.UnknownAlloc(id), ops...)
}

func hasPrefix(s, prefix string) bool { return strings.HasPrefix(s, prefix) }

func joinLines(lines []string) string { return strings.Join(slices.Compact(lines), "\n") }
