package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// everybody admits all callers and authenticates those with the token "mine".
type everybody struct{}

func (everybody) Authenticate(_ context.Context, token string, _ rpc.Rule, _ *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	switch token {
	case "mine":
		return &rbac.AuthenticatedIdentity{Claims: &idtoken.Claims{WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{JobID: "j"}}}, nil
	case "bad":
		return nil, apierror.ErrPermissionDenied
	}
	return &rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{AccessorID: "acls-disabled"}}, nil
}

func (everybody) Access(ctx context.Context, id *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	return rpc.TrustPeer{}.Access(ctx, id)
}

// newTestServer serves the routes with a real RPC server with a few methods.
func newTestServer(t *testing.T, maxBody int64) *Server {
	t.Helper()
	methods := []rpc.Method{
		rpc.Handle("Job.GetJob", rpc.Token, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.JobSpecificRequest) (*message.SingleJobResponse, error) {
				out := &message.SingleJobResponse{QueryMeta: message.QueryMeta{Index: 7, KnownLeader: true}}
				if q.JobID == "there" {
					out.Job = &nomad.Job{ID: q.JobID, Namespace: q.Namespace}
				}
				return out, nil
			}).Needs(rpc.AnyToken),
		rpc.Handle("Job.List", rpc.Token, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.JobListRequest) (*message.JobListResponse, error) {
				if q.Prefix == "fail" {
					return nil, apierror.Errorf(http.StatusTeapot, "no <b>coffee</b>")
				}
				return &message.JobListResponse{}, nil
			}).Needs(rpc.AnyToken),
		rpc.Handle("Job.Register", rpc.Token, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.JobRegisterRequest) (*message.JobRegisterResponse, error) {
				if q.Eval != nil || q.Forwarded {
					t.Error("the body set a field of the servers")
				}
				return &message.JobRegisterResponse{EvalID: q.Job.ID + "/" + q.Namespace, QueryMeta: message.QueryMeta{Index: 9}}, nil
			}).Needs(rpc.AnyToken),
		rpc.Handle("Operator.ServerHealth", rpc.Token, rpc.Here,
			func(context.Context, *rpc.Call, *message.GenericRequest) (*message.OperatorHealthReply, error) {
				return &message.OperatorHealthReply{Healthy: true, Unserved: []string{"actions of 1 job cannot be run here"}}, nil
			}).Needs(rpc.AnyToken),
		rpc.Handle("ACL.WhoAmI", rpc.Token, rpc.Here,
			func(_ context.Context, c *rpc.Call, _ *message.GenericRequest) (*message.ACLWhoAmIResponse, error) {
				return &message.ACLWhoAmIResponse{Identity: c.Identity}, nil
			}).Needs(rpc.AnyToken),
	}
	srv, err := rpc.NewServer(rpc.Config{Methods: methods, Auth: everybody{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Config: web.Config{RPC: srv, Callers: policies{off: true}, Region: "global", MaxBody: maxBody,
		Log: slog.New(slog.DiscardHandler), Headers: map[string]string{"X-Own": "1"}}})
}

// changed returns a server with another configuration.
func changed(s *Server, change func(*Config)) *Server {
	cfg := s.cfg
	change(&cfg)
	return New(cfg)
}

func do(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = "127.0.0.1:4646"
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestReplies(t *testing.T) {
	s := newTestServer(t, 1<<10)
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		want                     string // part of the body
	}{
		{"found", "GET", "/v1/job/there", "", 200, `"ID":"there"`},
		{"namespace", "GET", "/v1/job/there?namespace=ns", "", 200, `"Namespace":"ns"`},
		{"not found", "GET", "/v1/job/gone", "", 404, "job not found"},
		{"empty list", "GET", "/v1/jobs", "", 200, "[]"},
		{"coded error", "GET", "/v1/jobs?prefix=fail", "", 418, "no <b>coffee</b>"},
		{"bad index", "GET", "/v1/jobs?index=x", "", 400, "Invalid index"},
		{"bad wait", "GET", "/v1/jobs?wait=x", "", 400, "Invalid wait time"},
		{"bad stale", "GET", "/v1/jobs?stale=maybe", "", 400, "stale"},
		{"method", "DELETE", "/v1/jobs", "", 405, "Invalid method"},
		{"no route", "GET", "/v1/nothing", "", 404, ""},
		{"no service name", "GET", "/v1/service/", "", 400, "missing service name"},
		{"no service name, no slash", "GET", "/v1/service?stale", "", 400, "missing service name"},
		{"no service name, method", "DELETE", "/v1/service/", "", 405, "Invalid method"},
		{"no service id", "DELETE", "/v1/service/web/", "", 400, "missing service id"},
		{"no service id, method", "GET", "/v1/service/web/", "", 405, "Invalid method"},
		{"service id, method", "GET", "/v1/service/web/x", "", 405, "Invalid method"},
		{"more than a service id", "GET", "/v1/service/web/x/y", "", 400, "invalid URI"},
		{"more than a service id, method", "DELETE", "/v1/service/web/x/", "", 400, "invalid URI"},
		{"empty body", "PUT", "/v1/jobs", "", 400, "Request body is empty"},
		{"not JSON", "PUT", "/v1/jobs", "{", 400, "not valid JSON"},
		{"no job", "PUT", "/v1/jobs", "{}", 400, "Job must be specified"},
		{"no ID", "PUT", "/v1/jobs", `{"Job":{}}`, 400, "Job must have an ID"},
		{"other ID", "PUT", "/v1/job/a", `{"Job":{"ID":"b"}}`, 400, "does not match"},
		{"registered", "PUT", "/v1/jobs", `{"Job":{"ID":"a"},"Eval":{"ID":"x"},"Forwarded":true}`, 200, `"EvalID":"a/default"`},
		{"namespace of the body", "PUT", "/v1/jobs", `{"Job":{"ID":"a","Namespace":"own"},"Namespace":"body"}`, 200, `"EvalID":"a/body"`},
		{"namespace of the query", "PUT", "/v1/jobs?namespace=query", `{"Job":{"ID":"a"},"Namespace":"body"}`, 200, `"EvalID":"a/query"`},
		{"too large", "PUT", "/v1/jobs", `{"Job":{"ID":"` + strings.Repeat("a", 2<<10) + `"}}`, 413, "exceeds 1024 bytes"},
		{"snapshot of a disk", "GET", "/v1/client/allocation/a/snapshot", "", 400, "this agent is not a client"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(s, tt.method, tt.path, tt.body)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s %s = %d %q, want %d and %q", tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
			}
			if w.Header().Get("X-Own") != "1" {
				t.Error("the configured header is missing")
			}
		})
	}
}

func TestHealthHasUnservedFeatures(t *testing.T) {
	w := do(newTestServer(t, 1<<10), "GET", "/v1/operator/autopilot/health", "")
	if want := `"Unserved":["actions of 1 job cannot be run here"]`; w.Code != 200 || !strings.Contains(w.Body.String(), want) ||
		strings.Contains(w.Body.String(), "Warnings") {
		t.Errorf("health = %d %s, want %s and no warnings", w.Code, w.Body, want)
	}
}

// A leader of another build reports no unserved features. The agent then adds those of its own
// server, in the region of this server.
func TestHealthHasUnservedFeaturesOfTheOwnServer(t *testing.T) {
	reply := &message.OperatorHealthReply{Healthy: true}
	srv, err := rpc.NewServer(rpc.Config{Methods: []rpc.Method{
		rpc.Handle("Operator.ServerHealth", rpc.Token, rpc.Here,
			func(context.Context, *rpc.Call, *message.GenericRequest) (*message.OperatorHealthReply, error) {
				return reply, nil
			}).Needs(rpc.AnyToken),
	}, Auth: everybody{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"actions of 2 jobs cannot be run here"}
	for _, c := range []struct {
		name, query string
		leaders     []string
		own         func() []string
		want        string
	}{
		{"a leader of another build", "", nil, func() []string { return own }, own[0]},
		{"the region is named", "?region=global", nil, func() []string { return own }, own[0]},
		{"another region", "?region=far", nil, func() []string { return own }, ""},
		{"the leader reports", "", []string{"actions of 1 job cannot be run here"}, func() []string { return own },
			"actions of 1 job cannot be run here"},
		{"no unserved features", "", nil, func() []string { return nil }, ""},
		{"an agent without a server", "", nil, nil, ""},
	} {
		reply.Unserved = c.leaders
		s := changed(newTestServer(t, 0), func(cfg *Config) { cfg.RPC, cfg.Unserved = srv, c.own })
		w := do(s, "GET", "/v1/operator/autopilot/health"+c.query, "")
		var got struct{ Unserved []string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s, %v", c.name, w.Code, w.Body, err)
		}
		if text := strings.Join(got.Unserved, ";"); text != c.want {
			t.Errorf("%s: Unserved = %q, want %q", c.name, text, c.want)
		}
	}
}

func TestHeadersOfReads(t *testing.T) {
	w := do(newTestServer(t, 0), "GET", "/v1/job/there", "")
	for k, want := range map[string]string{"X-Nomad-Index": "7", "X-Nomad-KnownLeader": "true", "X-Nomad-LastContact": "0",
		"Content-Type": "application/json"} {
		if got := w.Header().Get(k); got != want {
			t.Errorf("%s = %q, want %q", k, got, want)
		}
	}
	if !json.Valid(w.Body.Bytes()) {
		t.Errorf("the body is not JSON: %s", w.Body)
	}
}

// A chunked body has no length. The limit applies to it as well.
func TestLimitWithoutLength(t *testing.T) {
	s := newTestServer(t, 16)
	req := httptest.NewRequest("PUT", "/v1/jobs", strings.NewReader(`{"Job":{"ID":"`+strings.Repeat("a", 64)+`"}}`))
	req.Host, req.ContentLength = "127.0.0.1:4646", -1
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status = %d, want 413", w.Code)
	}
}

func TestTaskSocketDemandsToken(t *testing.T) {
	h := newTestServer(t, 0).TaskSocket()
	for _, tt := range []struct {
		name, path string
		header     []string
		status     int
	}{
		{"none", "/v1/job/there", nil, 401},
		{"none, no route", "/v1/nothing", nil, 401},
		{"bad", "/v1/job/there", []string{"X-Nomad-Token", "bad"}, 403},
		{"nobody", "/v1/job/there", []string{"X-Nomad-Token", "whatever"}, 403},
		{"own", "/v1/job/there", []string{"X-Nomad-Token", "mine"}, 200},
		{"own bearer", "/v1/job/there", []string{"Authorization", "bearer mine"}, 200},
		{"own, no route", "/v1/nothing", []string{"X-Nomad-Token", "mine"}, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if w := do(h, "GET", tt.path, "", tt.header...); w.Code != tt.status {
				t.Errorf("GET %s = %d %s, want %d", tt.path, w.Code, w.Body, tt.status)
			}
		})
	}
}
