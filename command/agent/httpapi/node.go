package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func nodeRoutes() []web.Route {
	const node = "/v1/node/:node_id"
	return []web.Route{
		{Methods: "GET", Path: "/v1/nodes",
			Handle: web.Read("Node.List", func(r *web.Request, q *message.NodeListRequest) error { return nodeFields(r, &q.Fields) },
				func(o *message.NodeListResponse) (any, error) { return o.Nodes, nil })},
		{Methods: "GET", Path: node, Handle: web.Read("Node.GetNode", nodeID,
			func(o *message.SingleNodeResponse) (any, error) { return showNode(o.Node) })},
		{Methods: "PUT POST", Path: node + "/evaluate",
			Call: web.Write("Node.Evaluate", func(r *web.Request, q *message.NodeEvaluateRequest) error { q.NodeID = r.Param; return nil },
				web.Full[message.NodeUpdateResponse])},
		{Methods: "GET", Path: node + "/allocations",
			Handle: web.Read("Node.GetAllocs", nodeID, func(o *message.NodeAllocsResponse) (any, error) { return publicAllocs(o.Allocs), nil })},
		{Methods: "PUT POST", Path: node + "/drain", Call: web.Write("Node.UpdateDrain", nodeDrain, web.Full[message.NodeDrainUpdateResponse])},
		{Methods: "PUT POST", Path: node + "/eligibility",
			Call: web.Write("Node.UpdateEligibility", nodeEligibility, web.Full[message.NodeEligibilityUpdateResponse])},
		{Methods: "PUT POST", Path: node + "/purge",
			Call: web.Write("Node.Deregister", func(r *web.Request, q *message.NodeDeregisterRequest) error { q.NodeID = r.Param; return nil },
				web.Full[message.NodeUpdateResponse])},
		{Methods: "GET", Path: "/v1/node/pools",
			Handle: web.Read("NodePool.List", web.NoFields[message.NodePoolListRequest],
				func(o *message.NodePoolListResponse) (any, error) { return o.NodePools, nil })},
		{Methods: "PUT POST", Path: "/v1/node/pools",
			Call: web.Write("NodePool.UpsertNodePools", nodePool, web.Nothing[message.GenericResponse])},
		{Methods: "GET", Path: "/v1/node/pool/:name",
			Handle: web.Read("NodePool.GetNodePool", func(r *web.Request, q *message.NodePoolSpecificRequest) error { q.Name = r.Param; return nil },
				func(o *message.SingleNodePoolResponse) (any, error) {
					return web.Found(o.NodePool, "node pool not found")
				})},
		{Methods: "PUT POST", Path: "/v1/node/pool/:name",
			Call: web.Write("NodePool.UpsertNodePools", nodePool, web.Nothing[message.GenericResponse])},
		{Methods: "DELETE", Path: "/v1/node/pool/:name",
			Call: web.Write("NodePool.DeleteNodePools",
				func(r *web.Request, q *message.NodePoolDeleteRequest) error { q.Names = []string{r.Param}; return nil },
				web.Nothing[message.GenericResponse])},
		{Methods: "GET", Path: "/v1/node/pool/:name/nodes",
			Handle: web.Read("NodePool.ListNodes", func(r *web.Request, q *message.NodePoolNodesRequest) error {
				if err := r.NoPrefix(); err != nil {
					return err
				}
				q.Name = r.Param
				return nodeFields(r, &q.Fields)
			},
				func(o *message.NodePoolNodesResponse) (any, error) { return o.Nodes, nil })},
		{Methods: "GET", Path: "/v1/node/pool/:name/jobs",
			Handle: web.Read("NodePool.ListJobs", func(r *web.Request, q *message.NodePoolJobsRequest) error {
				if err := r.NoPrefix(); err != nil {
					return err
				}
				meta, err := r.Flag("meta")
				q.Name, q.Fields = r.Param, &nomad.JobStubFields{Meta: meta}
				return err
			}, func(o *message.NodePoolJobsResponse) (any, error) { return o.Jobs, nil })},
		{Methods: "GET", Path: "/v1/namespaces",
			Handle: web.Read("Namespace.ListNamespaces", func(*web.Request, *message.NamespaceListRequest) error { return nil },
				func(o *message.NamespaceListResponse) (any, error) { return o.Namespaces, nil })},
		{Methods: "GET", Path: "/v1/namespace/:name",
			Handle: web.Read("Namespace.GetNamespace",
				func(r *web.Request, q *message.NamespaceSpecificRequest) error { q.Name = r.Param; return nil },
				func(o *message.SingleNamespaceResponse) (any, error) {
					return web.Found(o.Namespace, "Namespace not found")
				})},
		{Methods: "PUT POST", Path: "/v1/namespace",
			Call: web.Write("Namespace.UpsertNamespaces", namespace, web.Nothing[message.GenericResponse])},
		{Methods: "PUT POST", Path: "/v1/namespace/:name",
			Call: web.Write("Namespace.UpsertNamespaces", namespace, web.Nothing[message.GenericResponse])},
		{Methods: "DELETE", Path: "/v1/namespace/:name",
			Call: web.Write("Namespace.DeleteNamespaces", func(r *web.Request, q *message.NamespaceDeleteRequest) error {
				q.Namespaces = []string{r.Param}
				return nil
			}, web.Nothing[message.GenericResponse])},
	}
}

func nodeID(r *web.Request, q *message.NodeSpecificRequest) error {
	q.NodeID = r.Param
	return nil
}

func nodeFields(r *web.Request, to **nomad.NodeStubFields) error {
	resources, err := r.Flag("resources")
	if err != nil {
		return err
	}
	os, err := r.Flag("os")
	if err != nil {
		return err
	}
	use, err := r.Flag("use")
	*to = &nomad.NodeStubFields{Resources: resources, OS: os, Use: use}
	return err
}

// nodeView is the JSON form of a node. Drain is for old tools.
type nodeView struct {
	*nomad.Node
	Drain bool
}

func showNode(n *nomad.Node) (any, error) {
	if n == nil {
		return nil, apierror.Errorf(http.StatusNotFound, "node not found")
	}
	shown := *n
	shown.SecretID = ""
	return nodeView{Node: &shown, Drain: n.DrainStrategy != nil}, nil
}

func nodeDrain(r *web.Request, q *message.NodeUpdateDrainRequest) error {
	var b struct {
		NodeID       string
		DrainSpec    *nomad.DrainSpec
		MarkEligible bool
		Meta         map[string]string
	}
	if err := r.Decode(&b); err != nil {
		return err
	}
	if err := web.SameID("Node", &b.NodeID, r.Param); err != nil {
		return err
	}
	q.NodeID, q.MarkEligible, q.Meta = b.NodeID, b.MarkEligible, b.Meta
	if b.DrainSpec != nil {
		q.DrainStrategy = &nomad.DrainStrategy{DrainSpec: *b.DrainSpec}
	}
	return nil
}

func nodeEligibility(r *web.Request, q *message.NodeUpdateEligibilityRequest) error {
	var b struct{ NodeID, Eligibility string }
	if err := r.Decode(&b); err != nil {
		return err
	}
	q.Eligibility = b.Eligibility
	q.NodeID = b.NodeID
	return web.SameID("Node", &q.NodeID, r.Param)
}

func namespace(r *web.Request, q *message.NamespaceUpsertRequest) error {
	var n nomad.Namespace
	if err := r.DecodeNamed(&n); err != nil {
		return err
	}
	q.Namespaces = []*nomad.Namespace{&n}
	if r.Param == "" {
		return nil
	}
	return web.SameID("Namespace", &n.Name, r.Param)
}

func nodePool(r *web.Request, q *message.NodePoolUpsertRequest) error {
	var p nomad.NodePool
	if err := r.DecodeNamed(&p); err != nil {
		return err
	}
	q.NodePools = []*nomad.NodePool{&p}
	if r.Param == "" {
		return nil
	}
	return web.SameID("Node pool", &p.Name, r.Param)
}
