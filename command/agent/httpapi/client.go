package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) clientRoutes() []web.Route {
	const alloc = "/v1/client/allocation/:alloc_id"
	return []web.Route{
		{Methods: "GET", Path: "/v1/client/stats", CORS: true,
			Handle: web.Read("ClientStats.Stats", s.ofNode, func(o *message.ClientStatsResponse) (any, error) { return o.HostStats, nil })},
		{Methods: "GET", Path: "/v1/client/metadata", CORS: true,
			Handle: web.Read("NodeMeta.Read", s.ofNode, web.Full[message.NodeMetaResponse])},
		{Methods: "POST", Path: "/v1/client/metadata",
			Call: web.Write("NodeMeta.Apply", web.Body(s.nodeMetaApply), web.Full[message.NodeMetaResponse])},
		{Methods: "GET PUT POST", Path: "/v1/client/gc", Changes: true,
			Handle: web.Read("ClientAllocations.GarbageCollectAll", s.ofNode, web.Nothing[message.GenericResponse])},
		{Methods: "GET", Path: "/v1/client/artifact-cache", CORS: true,
			Handle: web.Read("ArtifactCache.Status", s.ofNode, web.Full[message.ArtifactCacheResponse])},
		{Methods: "DELETE", Path: "/v1/client/artifact-cache",
			Call: web.Write("ArtifactCache.Purge", s.ofNode, web.Full[message.ArtifactCacheResponse])},
		{Methods: "GET", Path: "/v1/client/vault-tokens", CORS: true,
			Handle: web.Read("VaultTokens.List", s.ofNode, func(o *message.VaultTokensResponse) (any, error) { return o.Tokens, nil })},
		{Methods: "GET", Path: "/v1/client/identity", CORS: true,
			Handle: web.Read("NodeIdentity.Get", s.identityGet, web.Full[message.NodeIdentityGetResp])},
		{Methods: "PUT POST", Path: "/v1/client/identity/renew",
			Call: web.Write("NodeIdentity.Renew", web.OptionalBody(s.identityRenew), web.Full[message.NodeIdentityRenewResp])},
		{Methods: "PUT POST", Path: "/v1/acl/identity/client-introduction-token",
			Call: web.Write("ACL.CreateClientIntroductionToken", introduction, web.Full[message.ACLCreateClientIntroductionTokenResponse])},
		{Methods: "GET", Path: alloc + "/stats", CORS: true,
			Handle: web.Read("ClientAllocations.Stats", func(r *web.Request, q *message.AllocStatsRequest) error {
				q.AllocID, q.Task = r.Param, r.Query.Get("task")
				return nil
			}, func(o *message.AllocStatsResponse) (any, error) { return o.Stats, nil })},
		{Methods: "GET", Path: alloc + "/checks", CORS: true, Handle: allocChecks()},
		{Methods: "GET", Path: alloc + "/services", CORS: true, Handle: web.Read("ClientAllocations.Checks", ofChecks,
			func(o *message.AllocChecksResponse) (any, error) { return o.Consul, nil })},
		{Methods: "GET", Path: alloc + "/sandbox", CORS: true,
			Handle: web.Read("ClientAllocations.Sandbox", func(r *web.Request, q *message.AllocSandboxRequest) error {
				q.AllocID, q.Task = r.Param, r.Query.Get("task")
				return nil
			}, func(o *message.AllocSandboxResponse) (any, error) { return o.Tasks, nil })},
		{Methods: "GET", Path: alloc + "/templates", CORS: true, Handle: web.Read("ClientAllocations.DiffTemplates", allocTemplates, rendered)},
		{Methods: "PUT POST", Path: alloc + "/templates", Call: web.Write("ClientAllocations.RenderTemplates", allocTemplates, rendered)},
		{Methods: "PUT POST", Path: alloc + "/restart",
			Call: web.Write("ClientAllocations.Restart", allocRestart, web.Full[message.GenericResponse])},
		{Methods: "PUT POST", Path: alloc + "/signal",
			Call: web.Write("ClientAllocations.Signal", allocSignal, web.Full[message.GenericResponse])},
		{Methods: "GET PUT POST", Path: alloc + "/gc", Changes: true,
			Handle: web.Read("ClientAllocations.GarbageCollect",
				func(r *web.Request, q *message.AllocSpecificRequest) error { q.AllocID = r.Param; return nil },
				web.EmptyObject[message.GenericResponse])},
	}
}

func allocTemplates(r *web.Request, q *message.AllocTemplatesRequest) error {
	q.AllocID, q.Task = r.Param, r.Query.Get("task")
	return nil
}

func rendered(o *message.AllocTemplatesResponse) (any, error) { return o.Tasks, nil }

// allocChecks returns the handler of health checks, which two routes share.
func allocChecks() web.Handler {
	return web.Read("ClientAllocations.Checks", ofChecks,
		func(o *message.AllocChecksResponse) (any, error) { return o.Results, nil })
}

func ofChecks(r *web.Request, q *message.AllocChecksRequest) error {
	q.AllocID = r.Param
	return nil
}

// ofNode sets the node of a node-scoped route: the node_id of the query, or the node of this agent.
func (s *Server) ofNode(r *web.Request, q *message.NodeSpecificRequest) error {
	var err error
	q.NodeID, err = s.nodeOrOwn(r.Query.Get("node_id"))
	return err
}

func (s *Server) nodeOrOwn(id string) (string, error) {
	if id == "" {
		id = s.cfg.Agent.NodeID()
	}
	if id == "" {
		return "", apierror.Errorf(http.StatusBadRequest, "No local Node and node_id not provided")
	}
	return id, nil
}

func (s *Server) identityGet(r *web.Request, q *message.NodeIdentityGetReq) error {
	var err error
	q.NodeID, err = s.nodeOrOwn(r.Query.Get("node_id"))
	return err
}

func (s *Server) identityRenew(r *web.Request, q *message.NodeIdentityRenewReq) error {
	return s.nodeOfBody(r, &q.NodeID)
}

func (s *Server) nodeMetaApply(r *web.Request, q *message.NodeMetaApplyRequest) error {
	return s.nodeOfBody(r, &q.NodeID)
}

// nodeOfBody sets the node of a write: that of the query or the body, which must be equal, or the node of this agent.
func (s *Server) nodeOfBody(r *web.Request, id *string) (err error) {
	if query := r.Query.Get("node_id"); query != "" {
		if err := web.SameID("Node", id, query); err != nil {
			return err
		}
	}
	*id, err = s.nodeOrOwn(*id)
	return err
}

// introduction reads the parameters of an introduction token. Its TTL is a duration string or a
// number of nanoseconds.
func introduction(r *web.Request, q *message.ACLCreateClientIntroductionTokenRequest) error {
	var b struct {
		TTL      any
		NodeName string
		NodePool string
		Uses     int
	}
	if err := ignoreEOF(r.DecodeOptional(&b)); err != nil {
		return err
	}
	switch ttl := b.TTL.(type) {
	case nil:
	case float64:
		q.TTL = time.Duration(ttl)
	case string:
		var err error
		if q.TTL, err = time.ParseDuration(ttl); err != nil && ttl != "" {
			return apierror.Errorf(http.StatusBadRequest, "TTL %q is not a duration such as 5m", ttl)
		}
	default:
		return apierror.Errorf(http.StatusBadRequest, "TTL is neither a duration such as \"5m\" nor a number of nanoseconds")
	}
	q.NodeName, q.NodePool, q.Uses = b.NodeName, b.NodePool, b.Uses
	return nil
}

func allocRestart(r *web.Request, q *message.AllocRestartRequest) error {
	var b struct {
		TaskName string
		AllTasks bool
	}
	if err := ignoreEOF(r.DecodeOptional(&b)); err != nil {
		return err
	}
	if b.AllTasks && b.TaskName != "" {
		return apierror.Errorf(http.StatusBadRequest, "Can't set AllTasks to true and also set TaskName to %q: choose one", b.TaskName)
	}
	q.AllocID, q.TaskName, q.AllTasks = r.Param, b.TaskName, b.AllTasks
	return nil
}

func allocSignal(r *web.Request, q *message.AllocSignalRequest) error {
	var b struct{ AllocID, Task, Signal string }
	if err := r.Decode(&b); err != nil {
		return err
	}
	if err := web.SameID("Allocation", &b.AllocID, r.Param); err != nil {
		return err
	}
	q.AllocID, q.Task, q.Signal = b.AllocID, b.Task, strings.ToUpper(b.Signal)
	return nil
}
