package web

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
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/audit"
)

// auditedServer returns a server with an enforced audit log, and a function that returns the
// statuses on record. The status of a received request is 0.
func auditedServer(t *testing.T) (s *Server, statuses func() []int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(audit.Node{Name: "n"}, slog.New(slog.DiscardHandler))
	if err := log.Set(&audit.Config{Path: path, Mode: 0o600, Enforced: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return &Server{cfg: Config{Audit: log, Log: slog.New(slog.DiscardHandler)}}, func() (out []int) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var e struct {
				Payload struct {
					Response struct {
						Status int `json:"status_code"`
					}
				}
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			out = append(out, e.Payload.Response.Status)
		}
		return out
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
		{"large", nil, func(w http.ResponseWriter) { io.WriteString(w, "a"); io.WriteString(w, large); io.WriteString(w, "b") }, 200, "a" +
			large + "b", 200},
		{"large, lost", lost, func(w http.ResponseWriter) { io.WriteString(w, "a"); io.WriteString(w, large); io.WriteString(w, "b") }, 500,
			lost.Error() + "\n", 200},
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
func TestStream_Unbuffered(t *testing.T) {
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
	s, statuses := auditedServer(t)
	func() {
		defer func() { recover() }()
		s.audited(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/x", nil), func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			panic("bug")
		})
	}()
	if got := statuses(); !slices.Equal(got, []int{0, 500}) {
		t.Errorf("recorded: %v", got)
	}
}

// A handler can hijack the connection through all wrappers.
func TestHijack(t *testing.T) {
	s, statuses := auditedServer(t)
	ended := make(chan struct{})
	srv := httptest.NewServer(Compress(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
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
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /v1/x HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "taken\n" {
		t.Errorf("%q %v", line, err)
	}
	<-ended
	if got := statuses(); !slices.Equal(got, []int{0, 101}) {
		t.Errorf("recorded: %v", got)
	}
}

func BenchmarkAuditedRequest(b *testing.B) {
	for name, enforced := range map[string]*bool{"off": nil, "enforced": new(true), "best-effort": new(false)} {
		b.Run(name, func(b *testing.B) {
			s := &Server{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
			if enforced != nil {
				s.cfg.Audit = audit.New(audit.Node{Name: "n"}, slog.New(slog.DiscardHandler))
				if err := s.cfg.Audit.Set(&audit.Config{Path: filepath.Join(b.TempDir(), "audit.log"), Mode: 0o600, Enforced: *enforced,
					RotateBytes: 64 << 20, Keep: 1}); err != nil {
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
