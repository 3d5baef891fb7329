package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// newExplainServer answers /v1/acl/explain with the request. Any other RPC is an error, because an
// explained request must not be executed.
func newExplainServer(t *testing.T) *Server {
	t.Helper()
	srv, err := rpc.NewServer(rpc.Config{Auth: everybody{}, Log: slog.New(slog.DiscardHandler), Methods: []rpc.Method{
		rpc.Handle("ACL.Explain", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLExplainRequest) (*message.ACLExplainResponse, error) {
				w := rbac.JobACL{}
				if q.Workload != nil {
					w = *q.Workload
				}
				return &message.ACLExplainResponse{Needs: []string{fmt.Sprintf("%s|%s/%s/%s|%s|%s%s%s|%v|%v|%s", q.Method, q.Kind, q.Right, q.Name,
					q.Namespace, q.AccessorID, q.Role, q.Policy, w, q.Everybody, q.AuthToken)}}, nil
			}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Config: web.Config{RPC: srv, Region: "global", Log: slog.New(slog.DiscardHandler)}})
}

func TestExplainRoute(t *testing.T) {
	s := newExplainServer(t)
	about := func(request string) string {
		method, path, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(path, " ")
		b := map[string]any{"Method": method, "Path": path}
		if body != "" {
			b["Body"] = json.RawMessage(body)
		}
		text, err := json.Marshal(map[string]any{"Request": b})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		want                     string // part of the body
	}{
		{"query", "GET", "/v1/acl/explain?kind=variable&right=read&name=a/b&namespace=n&accessor=x", "", 200,
			"|variable/read/a/b|n|x|{   }|false|me"},
		{"workload", "GET", "/v1/acl/explain?workload=n/a%252Fb/g/t", "", 200, "{n a/b g t}"},
		{"bad workload", "GET", "/v1/acl/explain?workload=n/a/b/g/t", "", 400, "namespace/job/group/task"},
		{"everybody", "GET", "/v1/acl/explain?everybody", "", 200, "|true|"},
		{"body", "PUT", "/v1/acl/explain?namespace=n", `{"Kind":"job","Right":"read","Policy":"p","AuthToken":"forged","Namespace":"forged"}`,
			200, "|job/read/|n|p|{   }|false|me"},
		{"no body", "PUT", "/v1/acl/explain", "", 400, "Request body is empty"},
		{"read", "POST", "/v1/acl/explain", about("GET /v1/job/x?namespace=other"), 200, "Job.GetJob|//|other|"},
		{"request in the query", "GET", "/v1/acl/explain?request=DELETE+/v1/job/x", "", 200, "|job/stop/x|default|"},
		{"write", "PUT", "/v1/acl/explain", about(`PUT /v1/jobs {"Job":{"ID":"a","Namespace":"own"}}`), 200, "|job/run/a|own|"},
		{"write without a body", "PUT", "/v1/acl/explain", about("PUT /v1/jobs"), 400, "Request body is empty"},
		{"variable", "PUT", "/v1/acl/explain", about("DELETE /v1/var/a/b"), 200, "|variable/destroy/a/b|default|"},
		{"websocket", "PUT", "/v1/acl/explain", about("GET /v1/client/allocation/5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55/exec?task=t&namespace=n"),
			200, "|allocation/exec/5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55|n|"},
		{"stream", "PUT", "/v1/acl/explain",
			about("GET /v1/client/fs/logs/5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55?task=t&type=stdout&namespace=n"), 200,
			"|allocation/logs/5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55|n|"},
		{"purge", "PUT", "/v1/acl/explain", about("DELETE /v1/job/a%2Fb?purge=true"), 200, "|job/purge/a/b|default|"},
		{"dispatch", "PUT", "/v1/acl/explain", about(`PUT /v1/job/a%2Fb/dispatch {"Meta":{}}`), 200, "|job/dispatch/a/b|default|"},
		{"force", "PUT", "/v1/acl/explain", about("PUT /v1/job/x/periodic/force?namespace=n"), 200, "|job/force/x|n|"},
		{"stable", "PUT", "/v1/acl/explain", about(`PUT /v1/job/x/stable {"JobID":"x","JobVersion":1,"Stable":true}`), 200,
			"|job/stable/x|default|"},
		{"scale", "PUT", "/v1/acl/explain", about(`PUT /v1/job/x/scale {"Count":2,"Target":{"Group":"g"}}`), 200, "|job/scale/x|default|"},
		{"stop of an allocation", "PUT", "/v1/acl/explain", about("PUT /v1/allocation/5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55/stop"), 200,
			"|allocation/restart/5e0bd1a1-"},
		{"node pool", "PUT", "/v1/acl/explain", about(`PUT /v1/node/pools {"Name":"gpu"}`), 200, "|node_pool/write/gpu|"},
		{"node", "PUT", "/v1/acl/explain", about("GET /v1/node/5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55"), 200, "|node/read/|"},
		{"two questions", "PUT", "/v1/acl/explain", `{"Kind":"node","Request":{"Method":"GET","Path":"/v1/jobs"}}`, 400, "not both"},
		{"snapshot", "PUT", "/v1/acl/explain", about("PUT /v1/operator/snapshot"), 200, "Operator.SnapshotRestore|"},
		{"of the agent", "PUT", "/v1/acl/explain", about("PUT /v1/agent/reload"), 200, "|agent/write/|"},
		{"for everybody", "PUT", "/v1/acl/explain", about("GET /v1/agent/health"), 400, "requires no right"},
		{"no route", "PUT", "/v1/acl/explain", about("GET /v1/nothing"), 400, "unknown route /v1/nothing"},
		{"detach", "PUT", "/v1/acl/explain", about("DELETE /v1/volume/csi/v/detach?node=x&namespace=n"), 200, "CSIVolume.Unpublish|//|n|"},
		{"CSI volumes", "PUT", "/v1/acl/explain", about("GET /v1/volumes?type=csi&namespace=n"), 200, "CSIVolume.List|"},
		{"other method", "PUT", "/v1/acl/explain", about("PATCH /v1/jobs"), 400, "accepts GET PUT POST, not PATCH"},
		{"nothing", "PUT", "/v1/acl/explain", about("GET jobs"), 400, "use a method and a path"},
		{"bad method", "PUT", "/v1/acl/explain", about("G@T /v1/jobs"), 400, "use a method and a path"},
		{"itself", "PUT", "/v1/acl/explain", about("GET /v1/acl/explain"), 400, "unknown route"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(s, tt.method, tt.path, tt.body, "X-Nomad-Token", "me")
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s %s = %d %q, want %d and %q", tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
			}
		})
	}
}

// No route is executed when it is only explained.
func TestEveryRouteCanBeAskedAbout(t *testing.T) {
	s := newExplainServer(t)
	s = changed(s, func(c *Config) { c.Debug, c.Agent = true, dryAgent{of: dryAgent{}} })
	about := 0
	for _, rt := range s.table() {
		for _, method := range append(strings.Fields(rt.Methods), "GET") {
			path := rt.Path
			if before, after, ok := strings.Cut(path, ":"); ok {
				_, rest, slash := strings.Cut(after, "/")
				if path = before + "x"; slash {
					path += "/" + rest
				}
			}
			body, err := json.Marshal(map[string]any{"Request": web.DryRun{Method: method, Path: path + "?node_id=x", Body: []byte("{}")}})
			if err != nil {
				t.Fatal(err)
			}
			if do(s, "PUT", "/v1/acl/explain", string(body)).Code == http.StatusOK {
				about++
			}
		}
	}
	if about < 100 {
		t.Errorf("%d routes have a right", about)
	}
}

// A request with the explain header gets the required right in a header. It is executed as usual,
// with its body.
func TestReasonHeader(t *testing.T) {
	const maxReason = 2 << 10
	srv, err := rpc.NewServer(rpc.Config{Auth: everybody{}, Log: slog.New(slog.DiscardHandler), Methods: []rpc.Method{
		rpc.Handle("ACL.Explain", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLExplainRequest) (*message.ACLExplainResponse, error) {
				if q.AuthToken != "me" {
					return nil, apierror.ErrACLDisabled
				}
				return &message.ACLExplainResponse{Answers: []*message.ACLExplanation{{Decisions: []*message.ACLDecision{{Question: q.Right + " of " +
					q.Kind + " " +
					q.Name, Reason: "not\ngranted",
					Rules: []*message.ACLDecisionRule{{Policy: "p", Line: 3, Column: 4, Block: `namespace "ä"`,
						Text: strings.Repeat("x", 2*maxReason)}}}}}}}, nil
			}),
		rpc.Handle("Job.Register", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.JobRegisterRequest) (*message.JobRegisterResponse, error) {
				return nil, apierror.Errorf(403, "Permission denied: %s", q.Job.ID)
			}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Config: web.Config{RPC: srv, Region: "global", MaxBody: 1 << 10, Log: slog.New(slog.DiscardHandler)}})
	w := do(s, "PUT", "/v1/jobs", `{"Job":{"ID":"a"}}`, "X-Nomad-Token", "me", "X-Nomad-Acl-Reason", "1")
	got := w.Header().Get("X-Nomad-Acl-Reason")
	if want := `run of job a: refused: not?granted; policy "p", line 3, column 4: namespace "?": xxx`; !strings.HasPrefix(got, want) ||
		len(got) > maxReason+3 {
		t.Errorf("reason %q, want %q", got, want)
	}
	if w.Code != 403 || w.Body.String() != "Permission denied: a" {
		t.Errorf("answer %d %q", w.Code, w.Body)
	}
	for name, header := range map[string][]string{"ACL support disabled": {"X-Nomad-Acl-Reason", "1"}, "": {"X-Nomad-Token", "me"}} {
		if w := do(s, "PUT", "/v1/jobs", `{"Job":{"ID":"a"}}`, header...); w.Header().Get("X-Nomad-Acl-Reason") != name || w.Code != 403 {
			t.Errorf("reason %q, want %q", w.Header().Get("X-Nomad-Acl-Reason"), name)
		}
	}
	if w := do(s, "PUT", "/v1/jobs", `{"Job":{"ID":"`+strings.Repeat("a", 2<<10)+`"}}`, "X-Nomad-Acl-Reason", "1"); w.Code != 413 {
		t.Errorf("a body that is too large: %d", w.Code)
	}
}
