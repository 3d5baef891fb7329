package message

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
	Rebalance *Rebalance
	QueryMeta
}

// AllocMoveRequest is the request of Alloc.Move (open-nomad only). The reply is an AllocStopResponse.
type AllocMoveRequest struct {
	AllocID string
	NodeID  string
	WriteRequest
}

// Rebalance is a list of moves that would even out the usage of the nodes, in order. It is open-nomad only.
type Rebalance struct {
	Before NodeBalance
	After  NodeBalance // after all moves
	Moves  []*AllocMove
	// Skipped counts the allocations on the nodes that may not move, by reason.
	Skipped map[string]int
}

// NodeBalance describes how evenly the nodes are used. The load of a node is its dominant share: the larger of its
// used shares of CPU and memory, from 0 to 1. Deviation is the standard deviation of the loads.
type NodeBalance struct {
	Nodes     int
	Mean      float64
	Lowest    float64
	Highest   float64
	Deviation float64
}

// AllocMove is one move of an allocation to another node. The names of the nodes are empty if the caller cannot
// read nodes.
type AllocMove struct {
	AllocID   string
	Name      string
	Namespace string
	JobID     string
	TaskGroup string
	FromID    string
	FromName  string
	ToID      string
	ToName    string
	Deviation float64 // of the loads after the move and those before it
}
