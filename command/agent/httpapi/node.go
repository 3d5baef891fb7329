package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
)

func (s *Server) nodeRoutes() []route {
	const node = "/v1/node/:node_id"
	return []route{
		{methods: "GET", path: "/v1/nodes", handle: read("Node.List", func(r *request, q *nomad.NodeListRequest) error { return r.nodeFields(&q.Fields) }, func(o *nomad.NodeListResponse) (any, error) { return o.Nodes, nil })},
		{methods: "GET", path: node, handle: read("Node.GetNode", nodeID, func(o *nomad.SingleNodeResponse) (any, error) { return showNode(o.Node) })},
		{methods: "PUT POST", path: node + "/evaluate", call: write("Node.Evaluate", func(r *request, q *nomad.NodeEvaluateRequest) error { q.NodeID = r.param; return nil }, whole[nomad.NodeUpdateResponse])},
		{methods: "GET", path: node + "/allocations", handle: read("Node.GetAllocs", nodeID, func(o *nomad.NodeAllocsResponse) (any, error) { return publicAllocs(o.Allocs), nil })},
		{methods: "PUT POST", path: node + "/drain", call: write("Node.UpdateDrain", nodeDrain, whole[nomad.NodeDrainUpdateResponse])},
		{methods: "PUT POST", path: node + "/eligibility", call: write("Node.UpdateEligibility", nodeEligibility, whole[nomad.NodeEligibilityUpdateResponse])},
		{methods: "PUT POST", path: node + "/purge", call: write("Node.Deregister", func(r *request, q *nomad.NodeDeregisterRequest) error { q.NodeID = r.param; return nil }, whole[nomad.NodeUpdateResponse])},
		{methods: "GET", path: "/v1/node/pools", handle: read("NodePool.List", noFields[nomad.NodePoolListRequest], func(o *nomad.NodePoolListResponse) (any, error) { return o.NodePools, nil })},
		{methods: "PUT POST", path: "/v1/node/pools", call: write("NodePool.UpsertNodePools", nodePool, nothing[nomad.GenericResponse])},
		{methods: "GET", path: "/v1/node/pool/:name", handle: read("NodePool.GetNodePool", func(r *request, q *nomad.NodePoolSpecificRequest) error { q.Name = r.param; return nil },
			func(o *nomad.SingleNodePoolResponse) (any, error) { return found(o.NodePool, "node pool not found") })},
		{methods: "PUT POST", path: "/v1/node/pool/:name", call: write("NodePool.UpsertNodePools", nodePool, nothing[nomad.GenericResponse])},
		{methods: "DELETE", path: "/v1/node/pool/:name", call: write("NodePool.DeleteNodePools", func(r *request, q *nomad.NodePoolDeleteRequest) error { q.Names = []string{r.param}; return nil }, nothing[nomad.GenericResponse])},
		{methods: "GET", path: "/v1/node/pool/:name/nodes", handle: read("NodePool.ListNodes", func(r *request, q *nomad.NodePoolNodesRequest) error {
			if err := r.noPrefix(); err != nil {
				return err
			}
			q.Name = r.param
			return r.nodeFields(&q.Fields)
		},
			func(o *nomad.NodePoolNodesResponse) (any, error) { return o.Nodes, nil })},
		{methods: "GET", path: "/v1/node/pool/:name/jobs", handle: read("NodePool.ListJobs", func(r *request, q *nomad.NodePoolJobsRequest) error {
			if err := r.noPrefix(); err != nil {
				return err
			}
			meta, err := r.flag("meta")
			q.Name, q.Fields = r.param, &nomad.JobStubFields{Meta: meta}
			return err
		}, func(o *nomad.NodePoolJobsResponse) (any, error) { return o.Jobs, nil })},
		{methods: "GET", path: "/v1/namespaces", handle: read("Namespace.ListNamespaces", func(*request, *nomad.NamespaceListRequest) error { return nil }, func(o *nomad.NamespaceListResponse) (any, error) { return o.Namespaces, nil })},
		{methods: "GET", path: "/v1/namespace/:name", handle: read("Namespace.GetNamespace", func(r *request, q *nomad.NamespaceSpecificRequest) error { q.Name = r.param; return nil },
			func(o *nomad.SingleNamespaceResponse) (any, error) { return found(o.Namespace, "Namespace not found") })},
		{methods: "PUT POST", path: "/v1/namespace", call: write("Namespace.UpsertNamespaces", namespace, nothing[nomad.GenericResponse])},
		{methods: "PUT POST", path: "/v1/namespace/:name", call: write("Namespace.UpsertNamespaces", namespace, nothing[nomad.GenericResponse])},
		{methods: "DELETE", path: "/v1/namespace/:name", call: write("Namespace.DeleteNamespaces", func(r *request, q *nomad.NamespaceDeleteRequest) error { q.Namespaces = []string{r.param}; return nil }, nothing[nomad.GenericResponse])},
	}
}

func nodeID(r *request, q *nomad.NodeSpecificRequest) error {
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

func nodeDrain(r *request, q *nomad.NodeUpdateDrainRequest) error {
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

func nodeEligibility(r *request, q *nomad.NodeUpdateEligibilityRequest) error {
	var b struct{ NodeID, Eligibility string }
	if err := r.decode(&b); err != nil {
		return err
	}
	q.Eligibility = b.Eligibility
	q.NodeID = b.NodeID
	return sameID("Node", &q.NodeID, r.param)
}

func namespace(r *request, q *nomad.NamespaceUpsertRequest) error {
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

func nodePool(r *request, q *nomad.NodePoolUpsertRequest) error {
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
