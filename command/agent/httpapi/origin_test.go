package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/ui"
)

const (
	agentHost  = "127.0.0.1:4646"
	configured = "https://ui.example.com"
)

// originKinds lists how browsers label the requests of pages, by name.
var originKinds = []struct {
	name           string
	origin, site   string
	foreign, plain bool // of a page of another origin; without a label
}{
	{name: "other origin", origin: "http://evil.example", foreign: true},
	{name: "other origin, cross-site", origin: "http://evil.example", site: "cross-site", foreign: true},
	{name: "other port of the host", origin: "http://127.0.0.1:8080", foreign: true},
	{name: "other port of the host, same-site", origin: "http://127.0.0.1:8080", site: "same-site", foreign: true},
	{name: "sandboxed frame", origin: "null", foreign: true},
	{name: "sandboxed frame, cross-site", origin: "null", site: "cross-site", foreign: true},
	{name: "configured name in another origin", origin: configured + ".evil.example", site: "cross-site", foreign: true},
	{name: "configured host over http", origin: "http://ui.example.com", site: "cross-site", foreign: true},
	{name: "image or link of another site", site: "cross-site", foreign: true},
	{name: "image or link of a sibling", site: "same-site", foreign: true},
	{name: "unknown relation", site: "other", foreign: true},
	{name: "configured origin", origin: configured, site: "cross-site"},
	{name: "configured origin, old browser", origin: configured},
	{name: "own page", origin: "http://" + agentHost, site: "same-origin"},
	{name: "own page, old browser", origin: "http://" + agentHost},
	{name: "own page, plain GET", site: "same-origin"},
	{name: "typed address", site: "none"},
	{name: "no label", plain: true},
}

// originSetting is how an agent is configured, and which token a request has.
type originSetting struct {
	name       string
	acl        bool
	configured bool
	token      string // header with a token
}

// routeCase is a route of a server with a setting.
type routeCase struct {
	set                originSetting
	server             *Server
	name, method, path string
	row                web.Route
}

// originSettings lists the relevant settings of agents and requests.
var originSettings = []originSetting{
	{name: "no ACLs"}, {name: "no ACLs, any token", token: "X-Nomad-Token"}, {name: "no ACLs, configured", configured: true},
	{name: "ACLs", acl: true}, {name: "ACLs, token", acl: true, token: "X-Nomad-Token"},
	{name: "ACLs, bearer", acl: true, token: "Authorization"},
	{name: "ACLs, configured", acl: true, configured: true},
	{name: "ACLs, configured, token", acl: true, configured: true, token: "X-Nomad-Token"},
}

// originServer returns a server with all routes.
func originServer(t *testing.T, withACL, withOrigin bool) *Server {
	t.Helper()
	site, err := ui.New(ui.Config{Policy: ui.Strict()})
	if err != nil {
		t.Fatal(err)
	}
	return changed(newTestServer(t, 1<<10), func(c *Config) {
		c.Agent, c.UI, c.Debug, c.ACL, c.Callers = idle{}, site, true, withACL, policies{off: !withACL}
		if withOrigin {
			c.Origins = []string{configured}
		}
	})
}

// send makes a request that a browser has labelled. Its context has ended, so that no route waits.
func send(t *testing.T, s *Server, method, path string, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader("{}"))
	req.Host = agentHost
	req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)")
	for k, v := range header {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w
}

// refusedOrigin reports whether a reply is the refusal of a page.
func refusedOrigin(w *httptest.ResponseRecorder) bool {
	return w.Code == http.StatusForbidden &&
		(strings.HasPrefix(w.Body.String(), "cross-origin request") || strings.HasPrefix(w.Body.String(), "browsers must not send GET"))
}

// routeOf returns the row of a method and a path.
func routeOf(t *testing.T, s *Server, name string) (method string, row web.Route) {
	t.Helper()
	method, path, _ := strings.Cut(name, " ")
	rows := s.table()
	i := slices.IndexFunc(rows, func(r web.Route) bool {
		return r.Path == path && (r.Methods == "" || slices.Contains(strings.Fields(r.Methods), method))
	})
	if i < 0 {
		t.Fatalf("no route %s", name)
	}
	return method, rows[i]
}

// eachRoute calls check for each route of a server with each of the settings.
func eachRoute(t *testing.T, check func(t *testing.T, r routeCase)) {
	for _, set := range originSettings {
		t.Run(set.name, func(t *testing.T) {
			s := originServer(t, set.acl, set.configured)
			for _, name := range s.Routes() {
				method, row := routeOf(t, s, name)
				check(t, routeCase{set, s, name, method, parameters.ReplaceAllString(row.Path, "x"), row})
			}
		})
	}
}

// TestOrigins sends every request of the table of routes from every kind of page.
func TestOrigins(t *testing.T) {
	eachRoute(t, func(t *testing.T, r routeCase) {
		read := r.method == "GET" || r.method == "HEAD"
		for _, kind := range originKinds {
			header := map[string]string{"Origin": kind.origin, "Sec-Fetch-Site": kind.site}
			if r.set.token == "Authorization" {
				header[r.set.token] = "Bearer all"
			} else if r.set.token != "" {
				header[r.set.token] = "all"
			}
			isConfigured := kind.origin == configured
			foreign := kind.foreign || isConfigured && !r.set.configured
			withToken := r.set.acl && r.set.token != ""
			refused := foreign && !(read && r.row.Page) && !(read && !r.row.Changes && withToken) || r.row.Changes && read && kind.plain
			readable := ""
			if isConfigured && r.set.configured || foreign && read && withToken && r.row.CORS {
				readable = kind.origin
			}
			w := send(t, r.server, r.method, r.path, header)
			if got := refusedOrigin(w); got != refused {
				t.Errorf("%s from %s: %d %s, want refused %t", r.name, kind.name, w.Code, w.Body, refused)
			}
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != readable {
				t.Errorf("%s from %s: readable by %q, want %q", r.name, kind.name, got, readable)
			}
			if got := w.Header().Get("Access-Control-Allow-Credentials") != ""; got != (isConfigured && r.set.configured) {
				t.Errorf("%s from %s: credentials %t", r.name, kind.name, got)
			}
		}
	})
}

// TestPreflight asks for every route whether a page may send a request with a token.
func TestPreflight(t *testing.T) {
	eachRoute(t, func(t *testing.T, r routeCase) {
		for _, origin := range []string{"http://evil.example", "null", configured} {
			allowed := origin == configured && r.set.configured ||
				r.method == "GET" && r.row.CORS && !r.row.Changes && r.set.acl && r.set.token != ""
			header := map[string]string{"Origin": origin, "Sec-Fetch-Site": "cross-site", "Access-Control-Request-Method": r.method,
				"Access-Control-Request-Headers": strings.ToLower(r.set.token)}
			w := send(t, r.server, http.MethodOptions, r.path, header)
			h := w.Header()
			if got := w.Code == http.StatusNoContent && h.Get("Access-Control-Allow-Origin") == origin &&
				h.Get("Access-Control-Allow-Methods") == r.method &&
				h.Get("Access-Control-Allow-Headers") == strings.ToLower(r.set.token); got != allowed {
				t.Errorf("OPTIONS before %s of %s: %d %v, want allowed %t", r.name, origin, w.Code, h, allowed)
			}
			if !allowed && (!refusedOrigin(w) || h.Get("Access-Control-Allow-Methods") != "" || h.Get("Access-Control-Allow-Origin") != "") {
				t.Errorf("OPTIONS before %s of %s: %d %v %s, want a refusal", r.name, origin, w.Code, h, w.Body)
			}
		}
	})
}

// TestOptionsRunNothing checks that OPTIONS without the headers of a preflight request matches no route.
func TestOptionsRunNothing(t *testing.T) {
	s := originServer(t, false, true)
	for _, name := range s.Routes() {
		_, row := routeOf(t, s, name)
		for _, origin := range []string{"", configured} {
			if w := send(t, s, http.MethodOptions, parameters.ReplaceAllString(row.Path, "x"),
				map[string]string{"Origin": origin}); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("OPTIONS %s of %q = %d %s, want 405", row.Path, origin, w.Code, w.Body)
			}
		}
	}
}

// readsByPost lists the routes that accept a question in the URL or in a body. All other routes that accept
// GET and a method that changes something are Changes.
var readsByPost = []string{"/v1/jobs/statuses", "/v1/job/:job_id/explain", "/v1/acl/explain", "/debug/pprof/symbol"}

// TestChangesByGet checks the column Changes. Programs may still use GET, as in Nomad.
func TestChangesByGet(t *testing.T) {
	s := originServer(t, false, false)
	for _, row := range s.table() {
		methods := strings.Fields(row.Methods)
		both := len(methods) > 1 && slices.Contains(methods, "GET") && !slices.Contains(methods, "HEAD") &&
			!slices.Contains(readsByPost, row.Path)
		if both != row.Changes {
			t.Errorf("%s %s: Changes is %t, want %t", row.Methods, row.Path, row.Changes, both)
		}
		if !row.Changes {
			continue
		}
		path := parameters.ReplaceAllString(row.Path, "x")
		if w := send(t, s, "GET", path, map[string]string{"User-Agent": "Go-http-client/1.1"}); refusedOrigin(w) {
			t.Errorf("GET %s of a program: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestCheckOrigin(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://ui.example.com": true, "http://ui.example.com:8080": true, "http://127.0.0.1:8080": true, "https://[::1]:8443": true,
		"": false, "*": false, "null": false, "ui.example.com": false, "https://*.example.com": false, "https://ui.example.com/": false,
		"https://ui.example.com/ui": false, "https://UI.example.com": false, "https://ui.example.com:443": false,
		"http://ui.example.com:80":    false,
		"https://user@ui.example.com": false, "ftp://ui.example.com": false, "https://": false, "https://ui.example.com?": false,
		"https://a b": false,
	} {
		if err := web.CheckOrigin(text); (err == nil) != ok {
			t.Errorf("CheckOrigin(%q) = %v, want valid %t", text, err, ok)
		}
	}
}
