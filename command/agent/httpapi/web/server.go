package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// RPC makes calls to the servers, and through them to any node.
type RPC interface {
	Call(ctx context.Context, method string, req, resp any) error
	Stream(ctx context.Context, method string) (*rpc.Stream, error)
}

// Config is the configuration of a Server.
type Config struct {
	RPC     RPC
	Region  string            // region of the agent, the default for requests
	MaxBody int64             // bytes; a larger request body is refused with 413
	Headers map[string]string // added to every API response
	Hosts   []string          // allowed names in Host headers, besides addresses and localhost
	Origins []string          // origins whose pages may use the API, see CheckOrigin
	Callers Callers
	Methods []rpc.Method // methods of the servers and the rights they require
	ACL     bool         // ACLs are enabled
	Audit   *audit.Log   // nil keeps no record of requests
	// Path returns an error for a path that no route may answer. It gets the escaped path; nil allows all.
	Path func(method, path string) error
	Log  *slog.Logger
}

// Server is an http.Handler that serves a table of routes.
type Server struct {
	cfg     Config
	rows    []Route
	routes  *router
	origin  *http.CrossOriginProtection
	dry     *Server               // finds the RPC of a request without making it
	methods map[string]rpc.Method // by name
	known   callers
	bodies  bodyBudgets
	lists   rowCache
}

// New returns the handler of the routes. The dry routes are those whose required rights can be
// explained. Their handlers run only for an explanation, against RPCs that are recorded and refused.
func New(cfg Config, routes, dry []Route) *Server {
	return &Server{cfg: cfg, rows: routes, routes: newRouter(routes), origin: http.NewCrossOriginProtection(),
		dry: newDry(cfg.Region, dry), bodies: newBodyBudgets(), methods: methodsByName(cfg.Methods)}
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
	path := req.URL.EscapedPath()
	if s.preflight(w, req, path) {
		return
	}
	rt, param, allowed := s.routes.match(req.Method, path)
	if err := s.checkOrigin(w.Header(), req, rt); err != nil {
		writeError(w, err)
		return
	}
	if err := ignoreBody(req); err != nil {
		writeError(w, err)
		return
	}
	if strings.Contains(path, "//") {
		redirect(w, req, path)
		return
	}
	if s.cfg.Path != nil {
		if err := s.cfg.Path(req.Method, path); err != nil {
			writeError(w, err)
			return
		}
	}
	switch {
	case rt != nil:
	case len(allowed) > 0:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeError(w, apierror.Errorf(http.StatusMethodNotAllowed, "Invalid method"))
		return
	default:
		w.WriteHeader(http.StatusNotFound)
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
	// A page of another origin must not embed a reply, such as an image from the directory of a task.
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	for k, v := range s.cfg.Headers {
		h.Set(k, v)
	}
}

// serve runs the handler of a matched route and writes its reply.
func (s *Server) serve(w http.ResponseWriter, req *http.Request, rt *Route, param string) {
	r := &Request{Request: req, server: s, Reply: w, Param: param, Query: req.URL.Query()}
	r.intake, _ = req.Body.(*intake)
	if rt.Unbounded {
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
	body, err := rt.Handle(r)
	switch {
	case errors.Is(err, ErrDone):
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
	return apierror.Errorf(http.StatusRequestEntityTooLarge,
		"request body exceeds %d bytes: raise limits { http_max_request_body } of the agent, or send a smaller body", limit)
}
