package httpapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
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
	s = newTestServer(t, 1<<10)
	s.cfg.Audit = log
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
		if strings.HasPrefix(r.path, "/debug/pprof") {
			continue // profiles take their time
		}
		before, _, param := strings.Cut(r.path, ":")
		if param {
			before += "x" + strings.TrimLeft(strings.TrimPrefix(r.path, before), ":abcdefghijklmnopqrstuvwxyz_")
		}
		method := "GET"
		if r.methods != "" {
			method = strings.Fields(r.methods)[0]
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
		if a.Stage != audit.Received || b.Stage != audit.Complete || a.Request != b.Request || a.ID == b.ID || a.Response != nil || b.Response == nil {
			t.Errorf("%s %s: %+v, %+v", method, path, a, b)
			continue
		}
		if r := a.Request; r.Operation != method || r.Endpoint != path || r.Namespace.ID != "default" || r.Meta.UserAgent != "tester" || !nomad.IsUUID(r.ID) {
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
		{"namespace of the body", "PUT", "/v1/jobs", `{"Job":{"ID":"a","Namespace":"own"},"Namespace":"body"}`, nil, "anonymous", "/v1/jobs", "body", "", 200},
		{"workload", "GET", "/v1/jobs", "", []string{"X-Nomad-Token", "mine"}, "workload", "/v1/jobs", "default", "", 200},
		{"bad token", "GET", "/v1/jobs", "", []string{"Authorization", "Bearer bad"}, "invalid", "/v1/jobs", "default", "Permission denied", 403},
		{"error", "GET", "/v1/jobs?prefix=fail", "", nil, "anonymous", "/v1/jobs", "default", "no <b>coffee</b>", 418},
		{"secret that an error repeats", "GET", "/v1/jobs?stale=fine&index=1&resources=1", "", []string{"X-Nomad-Token", "fine"}, "", "/v1/jobs", "default", `Failed to parse value of "stale" ([secret]) as a bool`, 400},
		{"origin", "PUT", "/v1/jobs", "{}", []string{"Sec-Fetch-Site", "cross-site"}, "anonymous", "/v1/jobs", "default", "cross-origin request", 403},
		{"too large", "PUT", "/v1/jobs", `{"Job":{"ID":"` + strings.Repeat("a", 2<<10) + `"}}`, nil, "anonymous", "/v1/jobs", "default", "request body exceeds 1024 bytes", 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(s, tt.method, tt.path, tt.body, tt.header...)
			got := events()
			if len(got) != 2 || w.Code != tt.status {
				t.Fatalf("%d events, status %d: %s", len(got), w.Code, w.Body)
			}
			p := got[1].Payload
			if p.Auth.Kind != tt.kind || p.Request.Endpoint != tt.endpoint || p.Request.Namespace.ID != tt.ns || p.Response.Status != tt.status || !strings.HasPrefix(p.Response.Error, tt.err) || tt.err == "" && p.Response.Error != "" {
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

// newRecorder returns a recorder whose end is recorded unless lost is an error.
func newRecorder(lost error) (r *recorder, w *httptest.ResponseRecorder, ends *[]int) {
	w, ends = httptest.NewRecorder(), new([]int)
	r = &recorder{ResponseWriter: w, holds: true}
	r.done = func(code int, _ string) error {
		*ends = append(*ends, code)
		return lost
	}
	r.refuse = func(err error) { http.Error(w, err.Error(), http.StatusInternalServerError) }
	return r, w, ends
}

// The reply is withheld until it is recorded, unless it is a stream.
func TestRecorder(t *testing.T) {
	lost := errors.New("audit log: full")
	large := strings.Repeat("x", maxHeld+1)
	for _, tt := range []struct {
		name   string
		lost   error
		handle func(w http.ResponseWriter)
		code   int
		body   string
		ended  int
	}{
		{"plain", nil, func(w http.ResponseWriter) { w.WriteHeader(201); io.WriteString(w, "a"); io.WriteString(w, "b") }, 201, "ab", 201},
		{"nothing written", nil, func(http.ResponseWriter) {}, 200, "", 200},
		{"lost", lost, func(w http.ResponseWriter) { io.WriteString(w, "secret") }, 500, lost.Error() + "\n", 200},
		{"lost, nothing written", lost, func(http.ResponseWriter) {}, 500, lost.Error() + "\n", 200},
		{"large", nil, func(w http.ResponseWriter) { io.WriteString(w, "a"); io.WriteString(w, large); io.WriteString(w, "b") }, 200, "a" + large + "b", 200},
		{"large, lost", lost, func(w http.ResponseWriter) { io.WriteString(w, "a"); io.WriteString(w, large); io.WriteString(w, "b") }, 500, lost.Error() + "\n", 200},
		{"stream", lost, func(w http.ResponseWriter) {
			io.WriteString(w, "a")
			http.NewResponseController(w).Flush()
			io.WriteString(w, "b")
		}, 200, "ab", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, w, ends := newRecorder(tt.lost)
			tt.handle(r)
			r.end(true)
			if w.Code != tt.code || w.Body.String() != tt.body || len(*ends) != 1 || (*ends)[0] != tt.ended {
				t.Errorf("%d, %d bytes, ended %v", w.Code, w.Body.Len(), *ends)
			}
		})
	}
}

// The data of a stream arrives while it is written, before the end is recorded.
func TestStreamIsNotHeld(t *testing.T) {
	r, w, ends := newRecorder(nil)
	io.WriteString(r, "a")
	if w.Body.Len() > 0 {
		t.Error("the reply was not held back")
	}
	if err := http.NewResponseController(r).Flush(); err != nil || w.Body.String() != "a" || !w.Flushed || len(*ends) != 0 {
		t.Errorf("%v: %q, %v", err, w.Body, *ends)
	}
}

// A panic is recorded as an error, and nothing of the reply is sent.
func TestPanicIsAudited(t *testing.T) {
	s, events := audited(t, true)
	func() {
		defer func() { recover() }()
		s.audited(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/x", nil), func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			panic("bug")
		})
	}()
	if got := events(); len(got) != 2 || got[1].Payload.Response.Status != 500 {
		t.Errorf("recorded: %+v", got)
	}
}

// A handler can hijack the connection through all wrappers.
func TestHijack(t *testing.T) {
	s, events := audited(t, true)
	ended := make(chan struct{})
	web := httptest.NewServer(Compress(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(ended)
		s.audited(w, req, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "taken\n")
		})
	})))
	defer web.Close()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /v1/x HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "taken\n" {
		t.Errorf("%q %v", line, err)
	}
	<-ended
	if got := events(); len(got) != 2 || got[1].Payload.Response.Status != 101 {
		t.Errorf("recorded: %+v", got)
	}
}

func BenchmarkAuditedRequest(b *testing.B) {
	for name, enforced := range map[string]*bool{"off": nil, "enforced": new(true), "best-effort": new(false)} {
		b.Run(name, func(b *testing.B) {
			s := &Server{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
			if enforced != nil {
				s.cfg.Audit = audit.New(audit.Node{Name: "n"}, slog.New(slog.DiscardHandler))
				if err := s.cfg.Audit.Set(&audit.Config{Path: filepath.Join(b.TempDir(), "audit.log"), Mode: 0o600, Enforced: *enforced, RotateBytes: 64 << 20, Keep: 1}); err != nil {
					b.Fatal(err)
				}
				defer s.cfg.Audit.Close()
			}
			body := []byte(strings.Repeat("x", 2000))
			req := httptest.NewRequest("GET", "/v1/job/example?namespace=default", nil)
			for b.Loop() {
				s.audited(httptest.NewRecorder(), req, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
			}
		})
	}
}
