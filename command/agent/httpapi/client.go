package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) clientRoutes() []route {
	const alloc = "/v1/client/allocation/:alloc_id"
	return []route{
		{methods: "GET", path: "/v1/client/stats", cors: true, handle: read("ClientStats.Stats", s.ofNode, func(o *message.ClientStatsResponse) (any, error) { return o.HostStats, nil })},
		{methods: "GET", path: "/v1/client/metadata", cors: true, handle: read("NodeMeta.Read", s.ofNode, whole[message.NodeMetaResponse])},
		{methods: "POST", path: "/v1/client/metadata", cors: true, handle: read("NodeMeta.Apply", s.ofNode, whole[message.NodeMetaResponse])},
		{methods: "GET PUT POST", path: "/v1/client/gc", handle: sameSite(read("ClientAllocations.GarbageCollectAll", s.ofNode, nothing[message.GenericResponse]))},
		{methods: "GET", path: "/v1/client/identity", cors: true, handle: read("NodeIdentity.Get", s.identityGet, whole[message.NodeIdentityGetResp])},
		{methods: "PUT POST", path: "/v1/client/identity/renew", cors: true, call: write("NodeIdentity.Renew", optionalBody(s.identityRenew), whole[message.NodeIdentityRenewResp])},
		{methods: "PUT POST", path: "/v1/acl/identity/client-introduction-token", call: write("ACL.CreateClientIntroductionToken", introduction, whole[message.ACLCreateClientIntroductionTokenResponse])},
		{methods: "GET", path: alloc + "/stats", cors: true, handle: read("ClientAllocations.Stats", func(r *request, q *message.AllocStatsRequest) error {
			q.AllocID, q.Task = r.param, r.query.Get("task")
			return nil
		}, func(o *message.AllocStatsResponse) (any, error) { return o.Stats, nil })},
		{methods: "GET", path: alloc + "/checks", cors: true, handle: allocChecks()},
		{methods: "GET", path: alloc + "/sandbox", cors: true, handle: read("ClientAllocations.Sandbox", func(r *request, q *message.AllocSandboxRequest) error {
			q.AllocID, q.Task = r.param, r.query.Get("task")
			return nil
		}, func(o *message.AllocSandboxResponse) (any, error) { return o.Tasks, nil })},
		{methods: "PUT POST", path: alloc + "/restart", cors: true, call: write("ClientAllocations.Restart", allocRestart, whole[message.GenericResponse])},
		{methods: "PUT POST", path: alloc + "/signal", cors: true, call: write("ClientAllocations.Signal", allocSignal, whole[message.GenericResponse])},
		{methods: "GET PUT POST", path: alloc + "/gc", cors: true, handle: sameSite(read("ClientAllocations.GarbageCollect", func(r *request, q *message.AllocSpecificRequest) error { q.AllocID = r.param; return nil }, emptyObject[message.GenericResponse]))},
	}
}

// allocChecks returns the handler of health checks, which two routes share.
func allocChecks() func(*request) (any, error) {
	return read("ClientAllocations.Checks", func(r *request, q *message.AllocChecksRequest) error { q.AllocID = r.param; return nil },
		func(o *message.AllocChecksResponse) (any, error) { return o.Results, nil })
}

// ofNode sets the node of a node-scoped route: the node_id of the query, or the node of this agent.
func (s *Server) ofNode(r *request, q *message.NodeSpecificRequest) error {
	var err error
	q.NodeID, err = s.nodeOrOwn(r.query.Get("node_id"))
	return err
}

func (s *Server) nodeOrOwn(id string) (string, error) {
	if id == "" {
		id = s.cfg.Agent.NodeID()
	}
	if id == "" {
		return "", nomad.Errorf(http.StatusBadRequest, "No local Node and node_id not provided")
	}
	return id, nil
}

func (s *Server) identityGet(r *request, q *message.NodeIdentityGetReq) error {
	var err error
	q.NodeID, err = s.nodeOrOwn(r.query.Get("node_id"))
	return err
}

func (s *Server) identityRenew(r *request, q *message.NodeIdentityRenewReq) error {
	if id := r.query.Get("node_id"); id != "" {
		q.NodeID = id
	}
	var err error
	q.NodeID, err = s.nodeOrOwn(q.NodeID)
	return err
}

// introduction reads the parameters of an introduction token. Its TTL is a duration string or a
// number of nanoseconds.
func introduction(r *request, q *message.ACLCreateClientIntroductionTokenRequest) error {
	var b struct {
		TTL      any
		NodeName string
		NodePool string
		Uses     int
	}
	if err := ignoreEOF(r.decodeOptional(&b)); err != nil {
		return err
	}
	switch ttl := b.TTL.(type) {
	case nil:
	case float64:
		q.TTL = time.Duration(ttl)
	case string:
		var err error
		if q.TTL, err = time.ParseDuration(ttl); err != nil && ttl != "" {
			return nomad.Errorf(http.StatusBadRequest, "TTL %q is not a duration such as 5m", ttl)
		}
	default:
		return nomad.Errorf(http.StatusBadRequest, "TTL is neither a duration such as \"5m\" nor a number of nanoseconds")
	}
	q.NodeName, q.NodePool, q.Uses = b.NodeName, b.NodePool, b.Uses
	return nil
}

func allocRestart(r *request, q *message.AllocRestartRequest) error {
	var b struct {
		TaskName string
		AllTasks bool
	}
	if err := ignoreEOF(r.decodeOptional(&b)); err != nil {
		return err
	}
	if b.AllTasks && b.TaskName != "" {
		return nomad.Errorf(http.StatusBadRequest, "Can't set AllTasks to true and also set TaskName to %q: choose one", b.TaskName)
	}
	q.AllocID, q.TaskName, q.AllTasks = r.param, b.TaskName, b.AllTasks
	return nil
}

func allocSignal(r *request, q *message.AllocSignalRequest) error {
	var b struct{ AllocID, Task, Signal string }
	if err := r.decode(&b); err != nil {
		return err
	}
	if err := sameID("Allocation", &b.AllocID, r.param); err != nil {
		return err
	}
	q.AllocID, q.Task, q.Signal = b.AllocID, b.Task, strings.ToUpper(b.Signal)
	return nil
}
