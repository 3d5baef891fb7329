package api

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

// RebalanceOptions limits the moves of a Rebalance. An empty field sets no limit. MaxMoves is 10 by default.
type RebalanceOptions struct {
	MaxMoves   int
	Datacenter string
	NodePool   string
	JobID      string // in the namespace of the query; without it, jobs of all namespaces
}
