package httpapi

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/audit"
)

// auditEvent contains the event fields that these tests read.
type auditEvent struct {
	Payload struct {
		ID    string
		Stage audit.Stage
		Type  audit.Type
		Auth  struct {
			AccessorID string `json:"accessor_id"`
			Kind       string
		}
		Request struct {
			ID, Operation, Endpoint, Object string
			Namespace                       struct{ ID string }
			Meta                            struct {
				RemoteAddress string `json:"remote_address"`
				UserAgent     string `json:"user_agent"`
			} `json:"request_meta"`
		}
		Response *struct {
			Status int `json:"status_code"`
			Error  string
		}
	}
}

// audited returns a test server with an audit log, and a function that reads its events.
func audited(t *testing.T, enforced bool) (s *Server, events func() []auditEvent) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(audit.Node{Name: "n"}, slog.New(slog.DiscardHandler))
	if err := log.Set(&audit.Config{Path: path, Mode: 0o600, Enforced: enforced}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	s = changed(newTestServer(t, 1<<10), func(c *Config) { c.Audit = log })
	return s, func() (out []auditEvent) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var e auditEvent
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
		return out
	}
}

// Every request, also of an unknown route, is recorded twice: before and after.
func TestEveryRouteIsAudited(t *testing.T) {
	s, events := audited(t, true)
	paths := map[string]string{"/v1/nothing": "GET", "/v1/jobs/%2e%2e/x": "GET", "/": "DELETE", "/v1/jobs": "DELETE"}
	for _, r := range s.table() {
		if strings.HasPrefix(r.Path, "/debug/pprof") {
			continue // profiles take their time
		}
		before, _, param := strings.Cut(r.Path, ":")
		if param {
			before += "x" + strings.TrimLeft(strings.TrimPrefix(r.Path, before), ":abcdefghijklmnopqrstuvwxyz_")
		}
		method := "GET"
		if r.Methods != "" {
			method = strings.Fields(r.Methods)[0]
		}
		paths[before] = method
	}
	if len(paths) < 90 {
		t.Errorf("only %d routes were tried", len(paths))
	}
	for path, method := range paths {
		w := func() *httptest.ResponseRecorder {
			defer func() { recover() }() // the agent of these tests is nil: what asks it ends there
			return do(s, method, path, "", "User-Agent", "tester")
		}()
		got := events()
		if len(got) != 2 {
			t.Errorf("%s %s is recorded %d times", method, path, len(got))
			continue
		}
		a, b := got[0].Payload, got[1].Payload
		if a.Stage != audit.Received || b.Stage != audit.Complete || a.Request != b.Request || a.ID == b.ID || a.Response != nil ||
			b.Response == nil {
			t.Errorf("%s %s: %+v, %+v", method, path, a, b)
			continue
		}
		if r := a.Request; r.Operation != method || r.Endpoint != path || r.Namespace.ID != "default" || r.Meta.UserAgent != "tester" ||
			!nomad.IsUUID(r.ID) {
			t.Errorf("%s %s: the request is %+v", method, path, r)
		}
		if w != nil && b.Response.Status != w.Code {
			t.Errorf("%s %s: %d is recorded, the caller got %d", method, path, b.Response.Status, w.Code)
		}
	}
}

func TestWhatIsOnRecord(t *testing.T) {
	s, events := audited(t, false)
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		kind, endpoint, ns, err  string
		status                   int
	}{
		{"query", "GET", "/v1/job/there?namespace=ns&token=s3cret", "", nil, "anonymous", "/v1/job/there", "ns", "", 200},
		{"namespace of the body", "PUT", "/v1/jobs", `{"Job":{"ID":"a","Namespace":"own"},"Namespace":"body"}`, nil, "anonymous", "/v1/jobs",
			"body", "", 200},
		{"workload", "GET", "/v1/jobs", "", []string{"X-Nomad-Token", "mine"}, "workload", "/v1/jobs", "default", "", 200},
		{"bad token", "GET", "/v1/jobs", "", []string{"Authorization", "Bearer bad"}, "invalid", "/v1/jobs", "default", "Permission denied", 403},
		{"error", "GET", "/v1/jobs?prefix=fail", "", nil, "anonymous", "/v1/jobs", "default", "no <b>coffee</b>", 418},
		{"secret that an error repeats", "GET", "/v1/jobs?stale=fine&index=1&resources=1", "", []string{"X-Nomad-Token", "fine"}, "",
			"/v1/jobs", "default", `Failed to parse value of "stale" ([secret]) as a bool`, 400},
		{"origin", "PUT", "/v1/jobs", "{}", []string{"Sec-Fetch-Site", "cross-site"}, "anonymous", "/v1/jobs", "default",
			"cross-origin request", 403},
		{"too large", "PUT", "/v1/jobs", `{"Job":{"ID":"` + strings.Repeat("a", 2<<10) + `"}}`, nil, "anonymous", "/v1/jobs", "default",
			"request body exceeds 1024 bytes", 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(s, tt.method, tt.path, tt.body, tt.header...)
			got := events()
			if len(got) != 2 || w.Code != tt.status {
				t.Fatalf("%d events, status %d: %s", len(got), w.Code, w.Body)
			}
			p := got[1].Payload
			if p.Auth.Kind != tt.kind || p.Request.Endpoint != tt.endpoint || p.Request.Namespace.ID != tt.ns || p.Response.Status != tt.status ||
				!strings.HasPrefix(p.Response.Error, tt.err) || tt.err == "" && p.Response.Error != "" {
				t.Errorf("recorded: %+v %+v", p, p.Response)
			}
		})
	}
}

func TestTaskSocketIsAudited(t *testing.T) {
	s, events := audited(t, true)
	for token, status := range map[string]int{"": 401, "bad": 403, "whatever": 403, "mine": 200} {
		w := do(s.TaskSocket(), "GET", "/v1/job/there", "", "X-Nomad-Token", token)
		if got := events(); w.Code != status || len(got) != 2 || got[1].Payload.Response.Status != status {
			t.Errorf("token %q: %d %+v", token, w.Code, got)
		}
	}
}
