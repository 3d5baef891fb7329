package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) nodeRoutes() []route {
	const node = "/v1/node/:node_id"
	return []route{
		{methods: "GET", path: "/v1/nodes", handle: read("Node.List", func(r *request, q *message.NodeListRequest) error { return r.nodeFields(&q.Fields) }, func(o *message.NodeListResponse) (any, error) { return o.Nodes, nil })},
		{methods: "GET", path: node, handle: read("Node.GetNode", nodeID, func(o *message.SingleNodeResponse) (any, error) { return showNode(o.Node) })},
		{methods: "PUT POST", path: node + "/evaluate", call: write("Node.Evaluate", func(r *request, q *message.NodeEvaluateRequest) error { q.NodeID = r.param; return nil }, whole[message.NodeUpdateResponse])},
		{methods: "GET", path: node + "/allocations", handle: read("Node.GetAllocs", nodeID, func(o *message.NodeAllocsResponse) (any, error) { return publicAllocs(o.Allocs), nil })},
		{methods: "PUT POST", path: node + "/drain", call: write("Node.UpdateDrain", nodeDrain, whole[message.NodeDrainUpdateResponse])},
		{methods: "PUT POST", path: node + "/eligibility", call: write("Node.UpdateEligibility", nodeEligibility, whole[message.NodeEligibilityUpdateResponse])},
		{methods: "PUT POST", path: node + "/purge", call: write("Node.Deregister", func(r *request, q *message.NodeDeregisterRequest) error { q.NodeID = r.param; return nil }, whole[message.NodeUpdateResponse])},
		{methods: "GET", path: "/v1/node/pools", handle: read("NodePool.List", noFields[message.NodePoolListRequest], func(o *message.NodePoolListResponse) (any, error) { return o.NodePools, nil })},
		{methods: "PUT POST", path: "/v1/node/pools", call: write("NodePool.UpsertNodePools", nodePool, nothing[message.GenericResponse])},
		{methods: "GET", path: "/v1/node/pool/:name", handle: read("NodePool.GetNodePool", func(r *request, q *message.NodePoolSpecificRequest) error { q.Name = r.param; return nil },
			func(o *message.SingleNodePoolResponse) (any, error) { return found(o.NodePool, "node pool not found") })},
		{methods: "PUT POST", path: "/v1/node/pool/:name", call: write("NodePool.UpsertNodePools", nodePool, nothing[message.GenericResponse])},
		{methods: "DELETE", path: "/v1/node/pool/:name", call: write("NodePool.DeleteNodePools", func(r *request, q *message.NodePoolDeleteRequest) error { q.Names = []string{r.param}; return nil }, nothing[message.GenericResponse])},
		{methods: "GET", path: "/v1/node/pool/:name/nodes", handle: read("NodePool.ListNodes", func(r *request, q *message.NodePoolNodesRequest) error {
			if err := r.noPrefix(); err != nil {
				return err
			}
			q.Name = r.param
			return r.nodeFields(&q.Fields)
		},
			func(o *message.NodePoolNodesResponse) (any, error) { return o.Nodes, nil })},
		{methods: "GET", path: "/v1/node/pool/:name/jobs", handle: read("NodePool.ListJobs", func(r *request, q *message.NodePoolJobsRequest) error {
			if err := r.noPrefix(); err != nil {
				return err
			}
			meta, err := r.flag("meta")
			q.Name, q.Fields = r.param, &nomad.JobStubFields{Meta: meta}
			return err
		}, func(o *message.NodePoolJobsResponse) (any, error) { return o.Jobs, nil })},
		{methods: "GET", path: "/v1/namespaces", handle: read("Namespace.ListNamespaces", func(*request, *message.NamespaceListRequest) error { return nil }, func(o *message.NamespaceListResponse) (any, error) { return o.Namespaces, nil })},
		{methods: "GET", path: "/v1/namespace/:name", handle: read("Namespace.GetNamespace", func(r *request, q *message.NamespaceSpecificRequest) error { q.Name = r.param; return nil },
			func(o *message.SingleNamespaceResponse) (any, error) {
				return found(o.Namespace, "Namespace not found")
			})},
		{methods: "PUT POST", path: "/v1/namespace", call: write("Namespace.UpsertNamespaces", namespace, nothing[message.GenericResponse])},
		{methods: "PUT POST", path: "/v1/namespace/:name", call: write("Namespace.UpsertNamespaces", namespace, nothing[message.GenericResponse])},
		{methods: "DELETE", path: "/v1/namespace/:name", call: write("Namespace.DeleteNamespaces", func(r *request, q *message.NamespaceDeleteRequest) error {
			q.Namespaces = []string{r.param}
			return nil
		}, nothing[message.GenericResponse])},
	}
}

func nodeID(r *request, q *message.NodeSpecificRequest) error {
	q.NodeID = r.param
	return nil
}

func (r *request) nodeFields(to **nomad.NodeStubFields) error {
	resources, err := r.flag("resources")
	if err != nil {
		return err
	}
	os, err := r.flag("os")
	*to = &nomad.NodeStubFields{Resources: resources, OS: os}
	return err
}

// nodeView is the JSON form of a node. Drain is for old tools.
type nodeView struct {
	*nomad.Node
	Drain bool
}

func showNode(n *nomad.Node) (any, error) {
	if n == nil {
		return nil, nomad.Errorf(http.StatusNotFound, "node not found")
	}
	shown := *n
	shown.SecretID = ""
	return nodeView{Node: &shown, Drain: n.DrainStrategy != nil}, nil
}

func nodeDrain(r *request, q *message.NodeUpdateDrainRequest) error {
	var b struct {
		NodeID       string
		DrainSpec    *nomad.DrainSpec
		MarkEligible bool
		Meta         map[string]string
	}
	if err := r.decode(&b); err != nil {
		return err
	}
	if err := sameID("Node", &b.NodeID, r.param); err != nil {
		return err
	}
	q.NodeID, q.MarkEligible, q.Meta = b.NodeID, b.MarkEligible, b.Meta
	if b.DrainSpec != nil {
		q.DrainStrategy = &nomad.DrainStrategy{DrainSpec: *b.DrainSpec}
	}
	return nil
}

func nodeEligibility(r *request, q *message.NodeUpdateEligibilityRequest) error {
	var b struct{ NodeID, Eligibility string }
	if err := r.decode(&b); err != nil {
		return err
	}
	q.Eligibility = b.Eligibility
	q.NodeID = b.NodeID
	return sameID("Node", &q.NodeID, r.param)
}

func namespace(r *request, q *message.NamespaceUpsertRequest) error {
	var n nomad.Namespace
	if err := r.decode(&n); err != nil {
		return err
	}
	q.Namespaces = []*nomad.Namespace{&n}
	if r.param == "" {
		return nil
	}
	return sameID("Namespace", &n.Name, r.param)
}

func nodePool(r *request, q *message.NodePoolUpsertRequest) error {
	var p nomad.NodePool
	if err := r.decode(&p); err != nil {
		return err
	}
	q.NodePools = []*nomad.NodePool{&p}
	if r.param == "" {
		return nil
	}
	return sameID("Node pool", &p.Name, r.param)
}
