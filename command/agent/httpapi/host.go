package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// anyHost in Config.Hosts turns the check of the Host header off.
const anyHost = "*"

// answerPort answers a request that came to a port, after the check of its Host header.
func (s *Server) answerPort(w http.ResponseWriter, req *http.Request) {
	if err := s.checkHost(req); err != nil {
		s.head(w.Header())
		writeError(w, err)
		return
	}
	s.answer(w, req)
}

// checkHost refuses requests for names that are not the agent's. A web page can have the
// name of its own server resolve to the address of an agent (DNS rebinding); a browser
// then takes the agent for the page's origin. Such a request carries the name of the page
// in its Host header and no token. TLS needs no check: the certificate has no such name.
func (s *Server) checkHost(req *http.Request) error {
	if req.TLS != nil || req.Host == "" || s.cfg.ACL && !asAnonymous(req) { // browsers always send a host
		return nil
	}
	host := strings.ToLower(strings.TrimSuffix(hostOf(req.Host), "."))
	_, err := netip.ParseAddr(host)
	if err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(s.cfg.Hosts, anyHost) ||
		slices.ContainsFunc(s.cfg.Hosts, func(name string) bool { return strings.EqualFold(name, host) }) {
		return nil
	}
	advice := "or use an IP address"
	if s.cfg.ACL && req.URL.Path != bootstrapPath {
		advice = "use an IP address, or give a token"
	}
	return nomad.Errorf(http.StatusForbidden,
		"%q is not a name of this agent: add it to http_api_allowed_hosts in the agent's configuration, %s", host, advice)
}

const bootstrapPath = "/v1/acl/bootstrap"

// openPaths are those of public data and of callers who have no token yet. A path that ends with
// a slash stands for all below it.
var openPaths = []string{"/.well-known/", "/v1/agent/health", "/v1/status/", "/v1/regions", "/v1/acl/login", "/v1/acl/oidc/",
	"/v1/acl/token/onetime/exchange"}

// asAnonymous reports whether a request has the rights of the anonymous policy, or makes the first
// token of the cluster.
func asAnonymous(req *http.Request) bool {
	path := req.URL.Path
	if path == bootstrapPath {
		return true
	}
	return Token(req) == "" && !slices.ContainsFunc(openPaths, func(open string) bool {
		return path == open || strings.HasSuffix(open, "/") && strings.HasPrefix(path, open)
	})
}

// hostOf removes the port and the brackets of an IPv6 address.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}
