package message

import "github.com/open-nomad/open-nomad/nomad"

// RebalanceRequest is the request of Operator.Rebalance (open-nomad only). Datacenter and NodePool limit the nodes.
// JobID and the namespace limit the allocations that move.
type RebalanceRequest struct {
	MaxMoves   int
	Datacenter string
	NodePool   string
	JobID      string
	QueryOptions
}

// RebalanceResponse is the reply of Operator.Rebalance.
type RebalanceResponse struct {
	Rebalance *nomad.Rebalance
	QueryMeta
}

// AllocMoveRequest is the request of Alloc.Move (open-nomad only). The reply is an AllocStopResponse.
type AllocMoveRequest struct {
	AllocID string
	NodeID  string
	WriteRequest
}
