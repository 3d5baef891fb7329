package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Agent returns the state of this agent and changes it.
type Agent interface {
	// Self returns the body of /v1/agent/self. Secrets are removed.
	Self() map[string]any
	// Health returns nil for a role that this agent does not have.
	Health() (client, server *Health)
	// Servers lists the RPC addresses that the client uses, nil on an agent without a client.
	Servers() []string
	// SetServers replaces these addresses. Each is "host" or "host:port".
	SetServers(addrs []string) error
	// NodeID returns the node ID of the client, "" on an agent without a client.
	NodeID() string
	// Metrics returns the in-memory summary. Prometheus serves the text format and is nil if
	// disabled.
	Metrics(w http.ResponseWriter, r *http.Request) (any, error)
	Prometheus() http.Handler
	// Reload reads the configuration files again.
	Reload() error
	// Schedulers returns the state of the scheduler workers, nil on an agent without a server.
	Schedulers() *Schedulers
	// SetSchedulers changes the number of scheduler workers and their types of evaluations, without the core type,
	// until the agent is reloaded or restarted.
	SetSchedulers(number int, types []string)
}

// Members changes the list of gossip members.
type Members interface {
	Join(addrs []string) (int, error)
	ForceLeave(name string) error
	// Prune is ForceLeave, and also removes the server from the list.
	Prune(name string) error
}

// GossipKeys changes the gossip keys of all servers.
type GossipKeys interface {
	ListGossipKeys() (*message.KeyringResponse, error)
	InstallGossipKey(key string) (*message.KeyringResponse, error)
	UseGossipKey(key string) (*message.KeyringResponse, error)
	RemoveGossipKey(key string) (*message.KeyringResponse, error)
}

// Health is the health of one role of an agent.
type Health struct {
	OK      bool   `codec:"ok"`
	Message string `codec:"message"`
}

// Config is the configuration of a Server.
type Config struct {
	web.Config
	Agent   Agent
	UI      http.Handler // the web UI
	Disks   Disks        // nil on an agent that never has a client
	Debug   bool         // serves /debug/pprof
	Members Members      // nil if this agent is not a server
	Keys    GossipKeys   // nil if this agent is not a server
	// Unserved returns messages about the stored features that the server of this agent does not
	// support; nil if this agent is not a server.
	Unserved func() []string
	// OpenMetrics serves metrics to callers without a token, whether ACLs are enabled or not.
	OpenMetrics bool
	// Parse converts the HCL of a job to JSON within bounds of memory and time.
	Parse func(context.Context, *api.JobsParseRequest) ([]byte, error)
}

// Server is an http.Handler that serves the HTTP API of an agent.
type Server struct {
	*web.Server
	cfg Config

	execs, forwards atomic.Int64    // open exec sessions and forwarded connections
	pending         pendingSessions // sessions of both kinds whose caller is not authenticated
}

// New returns the handler of an agent.
func New(cfg Config) *Server {
	cfg.Path = servicePath
	dry := &Server{cfg: cfg}
	dry.cfg.Agent = dryAgent{of: cfg.Agent}
	s := &Server{cfg: cfg}
	s.Server = web.New(cfg.Config, s.table(), dry.explainable())
	return s
}

// table lists every route.
func (s *Server) table() []web.Route { return append(s.explainable(), explainRoutes()...) }

// explainable lists the routes whose required rights can be explained: all but the explanation itself.
func (s *Server) explainable() []web.Route {
	return slices.Concat(s.rpcRoutes(), s.memberRoutes(), s.agentRoutes(), s.uiRoutes(), enterpriseRoutes())
}
