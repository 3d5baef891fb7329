package servers

import (
	"context"
	"net/http"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rebalance"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits of the number of moves.
const (
	defaultMoves = 10
	maxMoves     = 1000
)

// Rebalance returns the moves that would even out the usage of the nodes. It writes nothing. Only allocations that
// the caller can read move. The names of nodes are shown to callers that can read nodes.
func (s *Service) Rebalance(ctx context.Context, c *rpc.Call, req *message.RebalanceRequest) (*message.RebalanceResponse, error) {
	if req.MaxMoves < 0 || req.MaxMoves > maxMoves {
		return nil, apierror.Errorf(http.StatusBadRequest, "number of moves is %d: it must be 1 to %d", req.MaxMoves, maxMoves)
	}
	o := rebalance.Options{MaxMoves: req.MaxMoves, Datacenter: req.Datacenter, NodePool: req.NodePool,
		Namespace: handler.NamespaceOf(req.Namespace), JobID: req.JobID, MayMove: handler.Grants(c, acl.ReadJob),
		Scheduler: scheduler.Options{Kinds: s.Kinds, Schemas: s.Schemas}}
	if o.MaxMoves == 0 {
		o.MaxMoves = defaultMoves
	}
	if o.Namespace == nomad.AllNamespacesSentinel {
		o.Namespace = ""
	}
	opts := req.QueryOptions
	opts.MinQueryIndex = 0 // the response depends on too many tables to block
	return handler.Read(ctx, s.Core, &opts, func(snap *state.Snapshot, _ memdb.WatchSet, out *message.RebalanceResponse) (err error) {
		out.Index = snap.Index()
		if out.Rebalance, err = rebalance.Plan(ctx, snap, o); err == nil && !c.Access.Allows(acl.ToRead(acl.Nodes)) {
			for _, m := range out.Rebalance.Moves {
				m.FromName, m.ToName = "", ""
			}
		}
		return err
	})
}
