package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// anyHost in Config.Hosts disables the check of the Host header.
const anyHost = "*"

// answerPort answers a request from a TCP port after the check of its Host header.
func (s *Server) answerPort(w http.ResponseWriter, req *http.Request) {
	if err := s.checkHost(req); err != nil {
		s.head(w.Header())
		writeError(w, err)
		return
	}
	s.answer(w, req)
}

// checkHost refuses requests for hosts that are not names of the agent. A web page can make its own
// host name resolve to the address of an agent (DNS rebinding). The browser then treats the agent
// as the origin of the page. Such a request has the host name of the page in its Host header and no
// token. TLS needs no check: the certificate does not contain that name.
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
	return apierror.Errorf(http.StatusForbidden,
		"%q is not a name of this agent: add it to http_api_allowed_hosts in the agent configuration, %s", host, advice)
}

const bootstrapPath = "/v1/acl/bootstrap"

// openPaths lists the paths of public data and of callers that have no token yet. A path that ends
// with a slash includes everything below it.
var openPaths = []string{"/ui", "/ui/", "/.well-known/", "/v1/agent/health", "/v1/status/", "/v1/regions", "/v1/acl/login",
	"/v1/acl/auth-methods", "/v1/acl/oidc/",
	"/v1/acl/token/onetime/exchange"}

// asAnonymous reports whether a request has the rights of the anonymous policy, or creates the
// first token of the cluster.
func asAnonymous(req *http.Request) bool {
	path := req.URL.Path
	if path == bootstrapPath {
		return true
	}
	return Token(req) == "" && path != "/" && !slices.ContainsFunc(openPaths, func(open string) bool {
		return path == open || strings.HasSuffix(open, "/") && strings.HasPrefix(path, open)
	})
}

// hostOf returns the host without the port and the brackets of an IPv6 address.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}
