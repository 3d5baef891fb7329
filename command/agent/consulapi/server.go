package consulapi

import (
	"log/slog"
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/internal/slots"
	"github.com/open-nomad/open-nomad/nomad/audit"
)

// maxBody is the maximum size of a request body, in bytes. No route reads one.
const maxBody = 64 << 10

// Config is the configuration of a Server.
type Config struct {
	Address    string // host:port of the loopback interface
	RPC        web.RPC
	Callers    web.Callers
	Region     string
	Datacenter string
	NodeID     string
	NodeName   string
	Version    string
	Revision   string
	ACL        bool       // ACLs are enabled
	Audit      *audit.Log // nil keeps no record of requests
	Log        *slog.Logger
}

// Server is the handler of the API.
type Server struct {
	cfg    Config
	web    *web.Server
	recent recent
	slots  *slots.Set[string] // blocking queries, by callerOf
}

// New returns a Server that does not listen yet.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, recent: newRecent(), slots: slots.New[string](maxBlockedOne, maxBlocked)}
	s.web = web.New(web.Config{RPC: cfg.RPC, Region: cfg.Region, MaxBody: maxBody, Callers: cfg.Callers, ACL: cfg.ACL,
		Audit: cfg.Audit, Log: cfg.Log}, s.routes(), nil)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("X-Consul-Default-Acl-Policy", s.defaultPolicy())
	admitted, err := admit(req)
	if err != nil {
		s.cfg.Log.Debug("refused a request of the Consul API", "err", err)
		refuse(w, err)
		return
	}
	s.web.ServeHTTP(w, admitted)
}

// defaultPolicy returns what callers may do without a policy: "allow" if ACLs are disabled.
func (s *Server) defaultPolicy() string {
	if s.cfg.ACL {
		return "deny"
	}
	return "allow"
}
