package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// RPC makes calls to the servers, and through them to any node.
type RPC interface {
	Call(ctx context.Context, method string, req, resp any) error
	Stream(ctx context.Context, method string) (*rpc.Stream, error)
}

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
	RPC      RPC
	Agent    Agent
	Region   string            // region of the agent, the default for requests
	MaxBody  int64             // bytes; a larger request body is refused with 413
	Headers  map[string]string // added to every API response
	Hosts    []string          // allowed names in Host headers, besides addresses and localhost
	Debug    bool              // serves /debug/pprof
	IsServer bool
	Members  Members    // nil if this agent is not a server
	Keys     GossipKeys // nil if this agent is not a server
	Callers  Callers
	Methods  []rpc.Method // methods of the servers and the rights they require
	ACL      bool         // ACLs are enabled
	// OpenMetrics serves metrics to callers without a token, whether ACLs are enabled or not.
	OpenMetrics bool
	Audit       *audit.Log // nil keeps no record of requests
	// Parse converts the HCL of a job to JSON within bounds of memory and time.
	Parse func(context.Context, *api.JobsParseRequest) ([]byte, error)
	Log   *slog.Logger
}

// Server is an http.Handler that serves the HTTP API.
type Server struct {
	cfg    Config
	routes *router
	origin *http.CrossOriginProtection
	dry    *Server          // finds the RPC of a request without making it
	early  map[string]check // by method name: checks before the body is read
	known  callers
	bodies bodyBudgets

	sessions atomic.Int64 // open exec sessions
}

// New returns the handler of an agent.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, origin: http.NewCrossOriginProtection(), dry: newDry(cfg), bodies: newBodyBudgets(), early: earlyChecks(cfg.Methods)}
	s.routes = newRouter(s.table())
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	release := s.newIntake(w, req)
	defer release()
	s.audited(w, req, s.answerPort)
}

// answer answers one request whose arrival is recorded.
func (s *Server) answer(w http.ResponseWriter, req *http.Request) {
	s.head(w.Header())
	// A page of another origin in an operator's browser must not run jobs here.
	if err := s.origin.Check(req); err != nil {
		writeError(w, nomad.Errorf(http.StatusForbidden, "%v", err))
		return
	}
	if err := ignoreBody(req); err != nil {
		writeError(w, err)
		return
	}
	path := req.URL.EscapedPath()
	if strings.Contains(path, "//") {
		redirect(w, req, path)
		return
	}
	rt, param, allowed := s.routes.match(req.Method, path)
	switch {
	case rt != nil:
	case len(allowed) > 0:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeError(w, nomad.Errorf(http.StatusMethodNotAllowed, "Invalid method"))
		return
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if rt.cors {
		allowOrigin(w.Header())
	}
	if req.Method == http.MethodOptions && rt.cors { // the handler does not run: a browser sends OPTIONS for any page
		preflight(w, req)
		return
	}
	s.serve(w, req, rt, param)
}

// redirect redirects to the path without repeated slashes. The client keeps the method and the
// body. An escaped slash is part of a name and stays.
func redirect(w http.ResponseWriter, req *http.Request, path string) {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if req.URL.RawQuery != "" {
		path += "?" + req.URL.RawQuery
	}
	w.Header().Set("Location", path) // one leading slash: the redirect stays on this agent
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// head sets the headers of every reply.
func (s *Server) head(h http.Header) {
	// Many replies contain text from tasks and jobs. A browser must not guess its media type.
	h.Set("X-Content-Type-Options", "nosniff")
	for k, v := range s.cfg.Headers {
		h.Set(k, v)
	}
}

// serve runs the handler of a matched route and writes its reply.
func (s *Server) serve(w http.ResponseWriter, req *http.Request, rt *route, param string) {
	r := &request{Request: req, server: s, w: w, param: param, query: req.URL.Query()}
	r.intake, _ = req.Body.(*intake)
	if rt.unbounded {
		streamBody(req)
	} else {
		if err := s.limitBody(w, req); err != nil {
			writeError(w, err)
			return
		}
	}
	if err := s.askEarly(r, rt); err != nil {
		s.refuseEarly(r, rt, err)
		return
	}
	if req.Header.Get(reasonHeader) != "" {
		if err := s.tellReason(r, rt); err != nil {
			writeError(w, err)
			return
		}
	}
	body, err := rt.handle(r)
	switch {
	case errors.Is(err, errDone):
	case err != nil:
		s.fail(r, err)
	default:
		writeJSON(w, r, body)
	}
}

// limitBody refuses a body over the limit. If the length is known, it refuses at once. Otherwise
// reading past the limit fails.
func (s *Server) limitBody(w http.ResponseWriter, req *http.Request) error {
	if s.cfg.MaxBody <= 0 || req.Body == nil {
		return nil
	}
	if req.ContentLength > s.cfg.MaxBody {
		w.Header().Set("Connection", "close")
		return tooLarge(s.cfg.MaxBody)
	}
	req.Body = http.MaxBytesReader(w, req.Body, s.cfg.MaxBody)
	return nil
}

func tooLarge(limit int64) error {
	return nomad.Errorf(http.StatusRequestEntityTooLarge,
		"request body exceeds %d bytes: raise limits { http_max_request_body } of the agent, or send a smaller body", limit)
}
