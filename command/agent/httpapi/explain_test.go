package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// newExplainServer answers /v1/acl/explain with what servers were asked. Any other RPC is
// a fault: what a question is about is not done.
func newExplainServer(t *testing.T) *Server {
	t.Helper()
	srv, err := rpc.NewServer(rpc.Config{Auth: everybody{}, Log: slog.New(slog.DiscardHandler), Methods: []rpc.Method{
		rpc.Handle("ACL.Explain", rpc.Anonymous, rpc.Here, func(_ context.Context, _ *rpc.Call, q *nomad.ACLExplainRequest) (*nomad.ACLExplainResponse, error) {
			w := nomad.JobACL{}
			if q.Workload != nil {
				w = *q.Workload
			}
			return &nomad.ACLExplainResponse{Needs: []string{fmt.Sprintf("%s|%s/%s/%s|%s|%s%s%s|%v|%v|%s", q.Method, q.Kind, q.Right, q.Name, q.Namespace, q.AccessorID, q.Role, q.Policy, w, q.Everybody, q.AuthToken)}}, nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{RPC: srv, Region: "global", Log: slog.New(slog.DiscardHandler)})
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
		{"query", "GET", "/v1/acl/explain?kind=variable&right=read&name=a/b&namespace=n&accessor=x", "", 200, "|variable/read/a/b|n|x|{   }|false|me"},
		{"workload", "GET", "/v1/acl/explain?workload=n/a%252Fb/g/t", "", 200, "{n a/b g t}"},
		{"bad workload", "GET", "/v1/acl/explain?workload=n/a/b/g/t", "", 400, "namespace/job/group/task"},
		{"everybody", "GET", "/v1/acl/explain?everybody", "", 200, "|true|"},
		{"body", "PUT", "/v1/acl/explain?namespace=n", `{"Kind":"job","Right":"read","Policy":"p","AuthToken":"forged","Namespace":"forged"}`, 200, "|job/read/|n|p|{   }|false|me"},
		{"no body", "PUT", "/v1/acl/explain", "", 400, "Request body is empty"},
		{"read", "POST", "/v1/acl/explain", about("GET /v1/job/x?namespace=other"), 200, "Job.GetJob|//|other|"},
		{"request in the query", "GET", "/v1/acl/explain?request=DELETE+/v1/job/x", "", 200, "Job.Deregister|//|default|"},
		{"write", "PUT", "/v1/acl/explain", about(`PUT /v1/jobs {"Job":{"ID":"a","Namespace":"own"}}`), 200, "Job.Register|//|own|"},
		{"write without a body", "PUT", "/v1/acl/explain", about("PUT /v1/jobs"), 400, "Request body is empty"},
		{"variable", "PUT", "/v1/acl/explain", about("DELETE /v1/var/a/b"), 200, "Variables.Apply|//|default|"},
		{"stream", "PUT", "/v1/acl/explain", about("GET /v1/client/fs/logs/5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55?task=t&type=stdout&namespace=n"), 200, "FileSystem.Logs|//|n|"},
		{"snapshot", "PUT", "/v1/acl/explain", about("PUT /v1/operator/snapshot"), 200, "Operator.SnapshotRestore|"},
		{"of the agent", "PUT", "/v1/acl/explain", about("PUT /v1/agent/reload"), 400, "no server answers /v1/agent/reload"},
		{"other method", "PUT", "/v1/acl/explain", about("PATCH /v1/jobs"), 400, "takes GET PUT POST, not PATCH"},
		{"nothing", "PUT", "/v1/acl/explain", about("GET jobs"), 400, "is a method and a path"},
		{"bad method", "PUT", "/v1/acl/explain", about("G@T /v1/jobs"), 400, "is a method and a path"},
		{"itself", "PUT", "/v1/acl/explain", about("GET /v1/acl/explain"), 400, "no server answers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(s, tt.method, tt.path, tt.body, "X-Nomad-Token", "me")
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s %s = %d %q, want %d and %q", tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
			}
		})
	}
}
