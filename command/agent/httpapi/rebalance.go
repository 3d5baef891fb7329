package httpapi

import (
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// rebalanceRoutes returns the routes that show and make moves of allocations. Nomad 2.0 does not have them.
func rebalanceRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/operator/rebalance",
			Handle: web.Read("Operator.Rebalance", rebalanceQuery, func(o *message.RebalanceResponse) (any, error) { return o.Rebalance, nil })},
		{Methods: "PUT POST", Path: "/v1/allocation/:alloc_id/move",
			Call: web.Write("Alloc.Move", web.Body(func(r *web.Request, q *message.AllocMoveRequest) error {
				q.AllocID = r.Param
				return nil
			}), web.Full[message.AllocStopResponse])},
	}
}

func rebalanceQuery(r *web.Request, q *message.RebalanceRequest) (err error) {
	q.Datacenter, q.NodePool, q.JobID = r.Query.Get("datacenter"), r.Query.Get("node_pool"), r.Query.Get("job")
	if text := r.Query.Get("max_moves"); text != "" {
		if q.MaxMoves, err = strconv.Atoi(text); err != nil {
			return apierror.Errorf(http.StatusBadRequest, "max_moves is %q: it must be a number", text)
		}
	}
	return nil
}
