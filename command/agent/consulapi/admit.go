package consulapi

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Limits of a request. Its headers and its first line have maxHeader together.
const (
	maxHeader     = 32 << 10
	maxPath       = 2 << 10
	maxQuery      = 16 << 10
	maxParameters = 128
	maxToken      = 8 << 10
)

// admit checks a request and returns the one to serve. Its token is in X-Nomad-Token only, and no token is in its query.
func admit(req *http.Request) (*http.Request, error) {
	if err := checkHost(req.Host); err != nil {
		return nil, err
	}
	if len(req.URL.EscapedPath()) > maxPath || len(req.URL.RawQuery) > maxQuery {
		return nil, apierror.Errorf(http.StatusRequestURITooLong, "the path exceeds %d bytes, or the query %d bytes", maxPath, maxQuery)
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil, apierror.Errorf(http.StatusBadRequest, "the query is not valid: escape its values") // err can contain a token
	}
	count := 0
	for _, values := range query {
		count += len(values)
	}
	if count > maxParameters {
		return nil, apierror.Errorf(http.StatusBadRequest, "the query has more than %d parameters", maxParameters)
	}
	token, err := tokenOf(req.Header, query)
	if err != nil {
		return nil, err
	}
	return rewrite(req, query, token), nil
}

// rewrite returns a copy of the request in the form of package web.
func rewrite(req *http.Request, query url.Values, token string) *http.Request {
	out := req.Clone(req.Context())
	for name := range out.Header {
		if strings.HasPrefix(name, "X-Nomad-") || strings.HasPrefix(name, "X-Consul-") || name == "Authorization" {
			out.Header.Del(name)
		}
	}
	if token != "" {
		out.Header.Set("X-Nomad-Token", token)
	}
	for _, name := range []string{"token", "region", "namespace"} {
		query.Del(name)
	}
	if ns := query.Get("ns"); ns != "" {
		query.Set("namespace", ns) // of the audit log
	}
	out.URL.RawQuery = query.Encode()
	out.RequestURI = ""
	return out
}

// tokenOf returns the token of a request, "" if it has none. Consul reads three places. Different tokens are refused,
// because other programs may use another one of them.
func tokenOf(h http.Header, query url.Values) (string, error) {
	found := append(slices.Clone(query["token"]), h.Values("X-Consul-Token")...)
	for _, text := range h.Values("Authorization") {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(text), " ")
		if !ok || !strings.EqualFold(scheme, "bearer") {
			return "", apierror.Errorf(http.StatusBadRequest, "the Authorization header is not a bearer token: use X-Consul-Token")
		}
		found = append(found, rest)
	}
	for i := range found {
		found[i] = strings.TrimSpace(found[i])
	}
	found = slices.DeleteFunc(found, func(t string) bool { return t == "" })
	slices.Sort(found)
	switch found = slices.Compact(found); {
	case len(found) == 0:
		return "", nil
	case len(found) > 1:
		return "", apierror.Errorf(http.StatusBadRequest, "the request has different tokens: use one of X-Consul-Token, Authorization and token")
	case len(found[0]) > maxToken || strings.ContainsFunc(found[0], func(c rune) bool { return c <= ' ' || c > '~' }):
		return "", apierror.Errorf(http.StatusForbidden, "Permission denied: the token is neither a secret ID nor a JWT")
	}
	return found[0], nil
}

// checkHost refuses the host names of web pages. A page can make its own name resolve to the loopback address (DNS
// rebinding), and then a browser sends its requests here. A browser always sends a host.
func checkHost(hostport string) error {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host == "localhost" {
		return nil
	}
	return apierror.Errorf(http.StatusForbidden, "the Host header must have an IP address or localhost: use http://127.0.0.1 and the port")
}

// refuse writes an error as plain text.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Connection", "close")
	w.WriteHeader(apierror.HTTPStatus(err))
	_, _ = io.WriteString(w, err.Error()) // the reader is gone when this fails
}
