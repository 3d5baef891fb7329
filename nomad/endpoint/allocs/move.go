package allocs

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rebalance"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// Move stops an allocation of a service job and asks the scheduler to place its replacement on a node. A move that is
// not possible now is refused with 409: the caller may try again. Moves are checked one after another.
func (s *Service) Move(ctx context.Context, c *rpc.Call, req *message.AllocMoveRequest) (*message.AllocStopResponse, error) {
	if req.AllocID == "" {
		return nil, apierror.ErrMissingAllocID
	}
	s.moves.Lock()
	defer s.moves.Unlock()
	snap := s.Snapshot()
	alloc := snap.Alloc(nil, req.AllocID)
	if err := handler.NeedAlloc(c, alloc, req.AllocID, acl.AllocLifecycle); err != nil {
		return nil, err
	}
	if req.NodeID == "" {
		return nil, apierror.Errorf(http.StatusBadRequest, "missing ID of the node to move to")
	}
	if err := s.OnlyOurs("move of an allocation"); err != nil {
		return nil, err
	}
	if err := rebalance.Refusal(snap, alloc, req.NodeID, scheduler.Options{Kinds: s.Kinds, Schemas: s.Schemas}); err != nil {
		return nil, apierror.Errorf(http.StatusConflict, "%v", err)
	}
	yes := true
	return s.transition(ctx, snap, alloc, &nomad.DesiredTransition{Migrate: &yes, TargetNode: req.NodeID})
}
