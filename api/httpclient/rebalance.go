package httpclient

import (
	"maps"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// Rebalance returns the moves that would even out the usage of the nodes. The namespace "*" of q means all
// namespaces. It is open-nomad only.
func (o *Operator) Rebalance(opts *api.RebalanceOptions, q *QueryOptions) (*api.Rebalance, *api.QueryMeta, error) {
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
	return get[*api.Rebalance](o.client, "/v1/operator/rebalance", &with)
}

// Move stops an allocation of a service job, and asks the scheduler to place its replacement on a node. The status of
// the error is 409 if the move is not possible now. It is open-nomad only.
func (a *Allocations) Move(allocID, nodeID string, q *WriteOptions) (*api.AllocStopResponse, error) {
	var out api.AllocStopResponse
	meta, err := a.client.put(allocPath(allocID, "/move"), &api.AllocMoveRequest{NodeID: nodeID}, &out, q)
	if err != nil {
		return nil, err
	}
	out.LastIndex, out.RequestTime = meta.LastIndex, meta.RequestTime
	return &out, nil
}
