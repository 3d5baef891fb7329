package httpapi

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/ui"
)

// A page whose name resolves to this agent is rejected, even if the browser treats the request as
// same-origin. The names and addresses of the agent are accepted.
func TestHostIsChecked(t *testing.T) {
	s := newTestServer(t, 0)
	s = changed(s, func(c *Config) { c.Agent, c.Hosts = idle{}, []string{"Node-1.example.com", "node-1"} })
	get := func(h http.Handler, edit func(*http.Request)) *httptest.ResponseRecorder {
		req := httptest.NewRequest("GET", "/v1/agent/health", nil)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		edit(req)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w
	}
	for host, refused := range map[string]bool{
		"evil.example": true, "evil.example:4646": true, "127.0.0.1.evil.example:4646": true, "localhost.evil.example": true,
		"node-1.evil.example": true, "node-1.example.com.evil.example": true, "0x7f.1:4646": true, "[evil]": true, "evil:x": true,
		"127.0.0.1": false, "127.0.0.1:4646": false, "[::1]:4646": false, "[::1]": false, "10.1.2.3:80": false, "[fe80::1%eth0]:4646": false,
		"localhost": false, "LOCALHOST:4646": false, "nomad.localhost": false, "localhost.": false,
		"node-1": false, "NODE-1:4646": false, "node-1.example.com:4646": false, "": false,
	} {
		w := get(s, func(r *http.Request) { r.Host = host })
		if got := w.Code == http.StatusForbidden; got != refused {
			t.Errorf("host %q: %d %s", host, w.Code, w.Body)
		}
		if refused && !strings.Contains(w.Body.String(), "http_api_allowed_hosts") {
			t.Errorf("host %q: %q does not name the key", host, w.Body)
		}
	}
	noNames := changed(s, func(c *Config) { c.Hosts = nil })
	evil := func(r *http.Request) { r.Host = "evil.example" }
	for name, may := range map[string]func() *httptest.ResponseRecorder{
		"over TLS": func() *httptest.ResponseRecorder {
			return get(noNames, func(r *http.Request) { evil(r); r.TLS = &tls.ConnectionState{} })
		},
		"any host": func() *httptest.ResponseRecorder {
			return get(changed(s, func(c *Config) { c.Hosts = []string{"*"} }), evil)
		},
		"with ACLs": func() *httptest.ResponseRecorder {
			return get(changed(noNames, func(c *Config) { c.ACL = true }), evil)
		},
		"task's socket": func() *httptest.ResponseRecorder { return get(noNames.TaskSocket(), evil) },
	} {
		if w := may(); strings.Contains(w.Body.String(), "http_api_allowed_hosts") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// With ACLs a page of another name has at most the rights of the anonymous policy, so it is
// rejected. Requests with a token, and those that need none, are accepted under any name.
func TestHostOfAnonymousCallers(t *testing.T) {
	s := newTestServer(t, 0)
	site, err := ui.New(ui.Config{Policy: ui.Strict()})
	if err != nil {
		t.Fatal(err)
	}
	s = changed(s, func(c *Config) { c.Agent, c.UI, c.ACL = idle{}, site, true })
	for _, tt := range []struct {
		method, path, host, token string
		refused                   bool
	}{
		{"GET", "/v1/jobs", "evil.example", "", true},
		{"GET", "//v1/jobs", "evil.example:4646", "", true},
		{"GET", "/v1/metrics", "evil.example", "", true},
		{"GET", "/v1/agent/health/../self", "evil.example", "", true},
		{"GET", "/v1/acl/token/self", "evil.example", "", true},
		{"PUT", "/v1/acl/bootstrap", "evil.example", "", true},
		{"PUT", "/v1/acl/bootstrap", "evil.example", "mine", true},
		{"GET", "/v1/jobs", "evil.example", "mine", false},
		{"GET", "/v1/jobs", "10.1.2.3:4646", "", false},
		{"PUT", "/v1/acl/bootstrap", "localhost:4646", "", false},
		{"GET", "/v1/agent/health", "lb.example", "", false},
		{"GET", "/", "lb.example", "", false},
		{"GET", "/ui", "lb.example", "", false},
		{"GET", "/ui/", "lb.example", "", false},
		{"GET", "/ui/jobs", "lb.example", "", false},
		{"GET", "/v1/acl/auth-methods", "lb.example", "", false},
		{"GET", "/uix", "evil.example", "", true},
		{"GET", "/v1/status/leader", "lb.example", "", false},
		{"GET", "/v1/regions", "lb.example", "", false},
		{"GET", "/.well-known/jwks.json", "issuer.example", "", false},
		{"PUT", "/v1/acl/login", "lb.example", "", false},
		{"PUT", "/v1/acl/oidc/auth-url", "lb.example", "", false},
		{"PUT", "/v1/acl/token/onetime/exchange", "lb.example", "", false},
	} {
		req := httptest.NewRequest(tt.method, "http://agent"+tt.path, nil)
		req.Host = tt.host
		if tt.token != "" {
			req.Header.Set("X-Nomad-Token", tt.token)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		text := w.Body.String()
		if got := w.Code == http.StatusForbidden && strings.Contains(text, "http_api_allowed_hosts"); got != tt.refused {
			t.Errorf("%s %s for %s, token %q: %d %s", tt.method, tt.path, tt.host, tt.token, w.Code, text)
		}
		if advice := strings.Contains(text, "or give a token"); tt.refused && advice != (tt.path != "/v1/acl/bootstrap") {
			t.Errorf("%s %s: %s", tt.method, tt.path, text)
		}
	}
}
