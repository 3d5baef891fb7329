package api

import (
	"maps"
	"strconv"
)

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

// Rebalance returns the moves that would even out the usage of the nodes. The namespace "*" of q means all
// namespaces. It is open-nomad only.
func (o *Operator) Rebalance(opts *RebalanceOptions, q *QueryOptions) (*Rebalance, *QueryMeta, error) {
	with := QueryOptions{}
	if q != nil {
		with = *q
	}
	with.Params = maps.Clone(with.Params)
	if with.Params == nil {
		with.Params = map[string]string{}
	}
	for name, value := range map[string]string{"datacenter": opts.Datacenter, "node_pool": opts.NodePool, "job": opts.JobID} {
		if value != "" {
			with.Params[name] = value
		}
	}
	if opts.MaxMoves != 0 {
		with.Params["max_moves"] = strconv.Itoa(opts.MaxMoves)
	}
	return get[*Rebalance](o.client, "/v1/operator/rebalance", &with)
}

// Move stops an allocation of a service job, and asks the scheduler to place its replacement on a node. The status of
// the error is 409 if the move is not possible now. It is open-nomad only.
func (a *Allocations) Move(allocID, nodeID string, q *WriteOptions) (*AllocStopResponse, error) {
	var out AllocStopResponse
	meta, err := a.client.put(allocPath(allocID, "/move"), &AllocMoveRequest{NodeID: nodeID}, &out, q)
	if err != nil {
		return nil, err
	}
	out.LastIndex, out.RequestTime = meta.LastIndex, meta.RequestTime
	return &out, nil
}
