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
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// RPC is the way to the servers, and from them to any node.
type RPC interface {
	Call(ctx context.Context, method string, req, resp any) error
	Stream(ctx context.Context, method string) (*rpc.Stream, error)
}

// Agent tells of the agent that answers.
type Agent interface {
	// Self is the body of /v1/agent/self; secrets are blanked already.
	Self() map[string]any
	// Health is nil for a role that this agent does not have.
	Health() (client, server *Health)
	// Servers lists the RPC addresses that the client part uses; nil without one.
	Servers() []string
	// SetServers replaces them: each is "host" or "host:port".
	SetServers(addrs []string) error
	// NodeID is the ID of the client part's node, empty without one.
	NodeID() string
	// Metrics is the in-memory summary; Prometheus the text exposition, nil when off.
	Metrics(w http.ResponseWriter, r *http.Request) (any, error)
	Prometheus() http.Handler
	// Reload reads the configuration files again.
	Reload() error
	// Schedulers is the state of the scheduler workers, nil without a server.
	Schedulers() *Schedulers
}

// Members changes the list of servers that gossip keeps.
type Members interface {
	Join(addrs []string) (int, error)
	ForceLeave(name string) error
	// Prune is ForceLeave, and forgets the server.
	Prune(name string) error
}

// GossipKeys changes the keys of gossip on all servers.
type GossipKeys interface {
	ListGossipKeys() (*nomad.KeyringResponse, error)
	InstallGossipKey(key string) (*nomad.KeyringResponse, error)
	UseGossipKey(key string) (*nomad.KeyringResponse, error)
	RemoveGossipKey(key string) (*nomad.KeyringResponse, error)
}

// Health of one role of an agent.
type Health struct {
	OK      bool   `codec:"ok"`
	Message string `codec:"message"`
}

// Config of a Server.
type Config struct {
	RPC      RPC
	Agent    Agent
	Region   string            // of the agent, the default for requests
	MaxBody  int64             // bytes; a larger request body gets 413
	Headers  map[string]string // added to every API response
	Hosts    []string          // names in Host headers, besides addresses and localhost
	Debug    bool              // serves /debug/pprof
	IsServer bool
	Members  Members    // nil when this agent is no server
	Keys     GossipKeys // as Members
	Callers  Callers
	Methods  []rpc.Method // of the servers: what they need of their callers
	ACL      bool         // callers need rights
	// OpenMetrics serves metrics to callers without a token, whether or not ACL is on.
	OpenMetrics bool
	Audit       *audit.Log // nil keeps no record of requests
	// Parse turns the text of a job into its JSON within bounds of memory and time.
	Parse func(context.Context, *api.JobsParseRequest) ([]byte, error)
	Log   *slog.Logger
}

// Server answers HTTP requests. It is an http.Handler.
type Server struct {
	cfg    Config
	routes *router
	origin *http.CrossOriginProtection
	dry    *Server          // says what a request would ask of the servers
	early  map[string]check // what a method needs, for requests whose body was not read
	known  callers
	bodies bodyBudgets

	sessions atomic.Int64 // of exec
}

// New builds the handler of an agent.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, origin: http.NewCrossOriginProtection(), dry: newDry(cfg), bodies: newBodyBudgets(), early: earlyChecks(cfg.Methods)}
	s.routes = newRouter(s.table())
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	release := s.newIntake(w, req)
	defer release()
	s.audited(w, req, s.answerPort)
}

// answer answers one request that is on record.
func (s *Server) answer(w http.ResponseWriter, req *http.Request) {
	s.head(w.Header())
	// A page of somebody else's, in the browser of an operator, must not run jobs here.
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
	if req.Method == http.MethodOptions && rt.cors { // never the handler: a browser sends it for any page
		preflight(w, req)
		return
	}
	s.serve(w, req, rt, param)
}

// redirect leads to the path without repeated slashes, with the method and the body. A
// slash that is escaped belongs to a name and stays.
func redirect(w http.ResponseWriter, req *http.Request, path string) {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if req.URL.RawQuery != "" {
		path += "?" + req.URL.RawQuery
	}
	w.Header().Set("Location", path) // of this agent: it begins with one slash
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// head sets what every reply has.
func (s *Server) head(h http.Header) {
	// What tasks and jobs say is in many replies: a browser must not guess what it is.
	h.Set("X-Content-Type-Options", "nosniff")
	for k, v := range s.cfg.Headers {
		h.Set(k, v)
	}
}

// serve runs one matched route and writes what it answers.
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

// limitBody refuses a body that is over the limit: at once when its length is
// told, else when the limit is passed.
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
		"request body is over %d bytes: raise limits { http_max_request_body } of the agent, or send less", limit)
}
