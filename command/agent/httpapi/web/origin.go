package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// A page in an operator's browser can send requests to every agent that the browser reaches. Without
// ACLs such a request has all rights, with ACLs those of the anonymous policy. So the agent serves only
// its own pages, and those of the configured origins.
//
//	configured origin                  everything; the page may read the reply
//	own page, or not from a page       everything
//	link to the web UI                 the UI, which contains no data
//	other origin, ACLs and a token     reads; the page may read the reply if Route.CORS
//	any other request                  403
//
// Browsers report the origin of a request in Origin or in Sec-Fetch-Site. They send neither with an
// image or a link of a page to a plain HTTP address, or if they are old. The page cannot read such a
// reply, so this matters only for Route.Changes.

// exposed lists the headers that a page of another origin may read.
const exposed = "X-Nomad-Index, X-Nomad-KnownLeader, X-Nomad-LastContact, X-Nomad-NextToken, X-Nomad-Acl-Reason, X-Nomad-Event-Restart"

// CheckOrigin returns an error if text is not an origin in the form in which browsers send it.
func CheckOrigin(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || text != u.Scheme+"://"+u.Host || strings.Contains(text,
		"*"):
		return apierror.Errorf(http.StatusBadRequest,
			`%q is not an origin: use "https://host" or "https://host:port", without a path and without *`,
			text)
	case text != strings.ToLower(text):
		return apierror.Errorf(http.StatusBadRequest, "%q has upper-case letters, which browsers do not send: use %q", text,
			strings.ToLower(text))
	case u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443":
		return apierror.Errorf(http.StatusBadRequest, "%q has the default port, which browsers do not send: remove it", text)
	}
	return nil
}

// checkOrigin refuses a request that a page of another origin made a browser send, and sets the headers
// that let an admitted page read the reply. The route is nil if none matches.
func (s *Server) checkOrigin(h http.Header, req *http.Request, rt *Route) error {
	origin := req.Header.Get("Origin")
	if origin != "" {
		h.Add("Vary", "Origin")
	}
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	changes := rt != nil && rt.Changes
	switch {
	case s.isTrusted(origin):
		trustOrigin(h, origin)
		return nil
	case s.isForeign(req):
	case changes && read && unlabelled(req):
		return apierror.Errorf(http.StatusForbidden, "browsers must not send GET %s, because any page can make them do it: use PUT", req.URL.Path)
	default:
		return nil
	}
	switch {
	case read && rt != nil && rt.Page:
		return nil
	case read && !changes && s.cfg.ACL && Token(req) != "":
		if rt != nil && rt.CORS && origin != "" {
			h.Set("Access-Control-Allow-Origin", origin)
		}
		return nil
	}
	return errForeign(origin)
}

// errForeign is the refusal of a page of another origin. The origin is "" if the browser did not send it.
func errForeign(origin string) error {
	if origin == "" || origin == "null" {
		return apierror.Errorf(http.StatusForbidden,
			"cross-origin request of a web page refused: enter the URL in the address bar of the browser, or use a command")
	}
	return apierror.Errorf(http.StatusForbidden,
		"cross-origin request refused: to allow the pages of %q, add it to http_api_allowed_origins in the agent configuration", origin)
}

// isTrusted reports whether the configuration allows the pages of an origin.
func (s *Server) isTrusted(origin string) bool {
	return origin != "" && slices.Contains(s.cfg.Origins, origin)
}

// isForeign reports whether a page of another origin sent the request. The library checks only methods
// that change something, so it gets another method.
func (s *Server) isForeign(req *http.Request) bool {
	return s.origin.Check(&http.Request{Method: http.MethodPost, Header: req.Header, Host: req.Host, URL: req.URL}) != nil
}

// unlabelled reports whether a browser sent the request without its origin. All browsers have this name in
// User-Agent, and a page cannot replace it without a preflight request.
func unlabelled(req *http.Request) bool {
	return req.Header.Get("Sec-Fetch-Site") == "" && req.Header.Get("Origin") == "" && strings.Contains(req.UserAgent(), "Mozilla/")
}

// trustOrigin sets the headers that let the pages of a configured origin read the reply. The credentials
// are the browser's TLS certificate.
func trustOrigin(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", exposed)
}

// preflight answers a CORS preflight request, and reports whether it was one. No route runs. A browser
// sends it before a page of another origin may send a token or change something.
func (s *Server) preflight(w http.ResponseWriter, req *http.Request, path string) bool {
	origin, method := req.Header.Get("Origin"), req.Header.Get("Access-Control-Request-Method")
	if req.Method != http.MethodOptions || origin == "" || method == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
	rt, _, _ := s.routes.match(method, path)
	wanted := req.Header.Get("Access-Control-Request-Headers")
	switch {
	case rt == nil:
		return false // 404 or 405
	case s.isTrusted(origin):
		trustOrigin(h, origin)
	case method == http.MethodGet && rt.CORS && !rt.Changes && s.cfg.ACL && announcesToken(wanted):
		h.Set("Access-Control-Allow-Origin", origin)
	default:
		writeError(w, errForeign(origin))
		return true
	}
	h.Set("Access-Control-Allow-Methods", method)
	if wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// announcesToken reports whether a list of header names has a header of a token.
func announcesToken(names string) bool {
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); strings.EqualFold(name, "X-Nomad-Token") || strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// FromTrustedOrigin reports whether the configuration allows the origin of the request.
func (r *Request) FromTrustedOrigin() bool { return r.server.isTrusted(r.Header.Get("Origin")) }
