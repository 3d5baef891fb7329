package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// explainRoutes returns the route that explains access decisions. Nomad 2.0 does not have it.
func (s *Server) explainRoutes() []route {
	return []route{{methods: "GET PUT POST", path: "/v1/acl/explain", handle: read("ACL.Explain", s.explainQuestion, whole[acls.ExplainResponse])}}
}

// explainBody is a question about a right on an object, or about a request.
type explainBody struct {
	Kind, Name, Right        string
	AccessorID, Role, Policy string
	Workload                 *acls.JobACL
	Everybody                bool
	Request                  *explainRequest
}

// explainRequest is a request to this agent whose rights are in question. It is not executed.
type explainRequest struct {
	Method, Path string
	Body         json.RawMessage
}

// explainQuestion reads the question from the body, or for GET from the query.
func (s *Server) explainQuestion(r *request, q *acls.ExplainRequest) error {
	b := &explainBody{}
	var err error
	if r.Method == http.MethodGet {
		err = r.explainQuery(b)
	} else {
		err = r.decode(b)
	}
	if err != nil {
		return err
	}
	q.Kind, q.Name, q.Right, q.AccessorID, q.Role, q.Policy, q.Workload, q.Everybody = b.Kind, b.Name, b.Right, b.AccessorID, b.Role, b.Policy, b.Workload, b.Everybody
	if b.Request == nil {
		return nil
	}
	if b.Kind+b.Name+b.Right != "" {
		return nomad.Errorf(http.StatusBadRequest, "specify a request or a right on an object, not both")
	}
	return s.rpcOf(r, b.Request, q)
}

func (r *request) explainQuery(b *explainBody) (err error) {
	for name, to := range map[string]*string{"kind": &b.Kind, "name": &b.Name, "right": &b.Right, "accessor": &b.AccessorID, "role": &b.Role, "policy": &b.Policy} {
		*to = r.query.Get(name)
	}
	if text := r.query.Get("request"); text != "" {
		method, path, _ := strings.Cut(text, " ")
		b.Request = &explainRequest{Method: method, Path: path}
	}
	if r.query.Has("workload") {
		w, err := api.ParseJobACL(r.query.Get("workload"))
		if err != nil {
			return nomad.Errorf(http.StatusBadRequest, "%v", err)
		}
		b.Workload = &acls.JobACL{Namespace: w.Namespace, JobID: w.JobID, Group: w.Group, Task: w.Task}
	}
	b.Everybody, err = r.flag("everybody")
	return err
}

// rpcOf turns a request into a question. It runs the handler of the route against a refuser, which
// records the RPC and refuses it. The body is read only if the caller may make the call with some
// body.
func (s *Server) rpcOf(caller *request, asked *explainRequest, q *acls.ExplainRequest) error {
	noted := &notebook{}
	req, err := http.NewRequestWithContext(context.WithValue(caller.Context(), notebookKey{}, noted), asked.Method, "http://agent"+asked.Path, bytes.NewReader(asked.Body))
	if err != nil || !strings.HasPrefix(asked.Path, "/") {
		return nomad.Errorf(http.StatusBadRequest, "invalid request %q %q: use a method and a path, such as GET /v1/jobs", asked.Method, asked.Path)
	}
	rt, param, allowed := s.dry.routes.match(req.Method, req.URL.EscapedPath())
	switch {
	case rt != nil:
	case len(allowed) > 0:
		return nomad.Errorf(http.StatusBadRequest, "%s accepts %s, not %s", req.URL.Path, strings.Join(allowed, " "), req.Method)
	default:
		return nomad.Errorf(http.StatusBadRequest, "unknown route %s", req.URL.Path)
	}
	r := &request{Request: req, server: s.dry, w: nowhere{}, param: param, query: req.URL.Query()}
	if s.askFor(caller, rt, r.query.Get("namespace")) != nil {
		q.Method, q.Namespace = rt.call.method, r.namespace()
		return nil
	}
	_, err = rt.handle(r)
	if own := noted.own; own != nil && own.Kind != "" {
		q.Kind, q.Right, q.Name, q.Namespace = string(own.Kind), own.Rights[0], own.Name, r.namespace()
		return nil
	}
	if noted.method == "" {
		return nomad.Errorf(http.StatusBadRequest, "the request requires no right, or fails before a right is checked: %v", cmp.Or(err, errors.New("the agent answers it locally")))
	}
	q.Method, q.Namespace = noted.method, r.namespace()
	if noted.request != nil {
		q.Namespace = noted.request.Envelope().Namespace
	}
	if noted.about(param, q); q.Kind != "" {
		q.Method = ""
	}
	return nil
}

// newDry returns a Server for dry runs: its RPCs are recorded and refused.
func newDry(cfg Config) *Server {
	dry := &Server{cfg: Config{RPC: refuser{}, Agent: dryAgent{of: cfg.Agent}, Region: cfg.Region, Debug: cfg.Debug, OpenMetrics: cfg.OpenMetrics, Log: slog.New(slog.DiscardHandler)}}
	dry.routes = newRouter(slices.Concat(dry.rpcRoutes(), dry.memberRoutes(), dry.agentRoutes(), dry.laterRoutes(), dry.enterpriseRoutes()))
	return dry
}

// dryAgent returns the node ID of the agent. The other methods are not called: their routes check a
// right first, and a dry run ends there.
type dryAgent struct {
	Agent
	of Agent
}

func (d dryAgent) NodeID() string            { return d.of.NodeID() }
func (dryAgent) Health() (client, _ *Health) { return nil, nil }

// notebook records the first RPC of a dry run, or the right that the agent requires.
type notebook struct {
	method  string
	request rpc.Request // nil for a stream
	own     *acl.Question
}

// notes reports whether the request is a dry run, and if so records the right that the agent
// requires.
func (r *request) notes(q acl.Question) bool {
	n, ok := r.Context().Value(notebookKey{}).(*notebook)
	if ok && n.own == nil {
		n.own = &q
	}
	return ok
}

type notebookKey struct{}

// refuser is an RPC that records the call in the notebook of the context and refuses it.
type refuser struct{}

// Call implements RPC.
func (refuser) Call(ctx context.Context, method string, req, _ any) error {
	n, ok := ctx.Value(notebookKey{}).(*notebook)
	if ok && n.method == "" {
		n.method = method
		n.request, _ = req.(rpc.Request) // all requests implement it
	}
	return nomad.ErrPermissionDenied
}

// Stream implements RPC.
func (r refuser) Stream(ctx context.Context, method string) (*rpc.Stream, error) {
	return nil, r.Call(ctx, method, nil, nil)
}

// rightsOnAllocs maps methods to the right on an allocation that they require.
var rightsOnAllocs = map[string]string{
	"Alloc.GetAlloc": "read", "Alloc.Stop": "restart", "ClientAllocations.Stats": "read", "ClientAllocations.Checks": "read", "ClientAllocations.Restart": "restart", "ClientAllocations.Sandbox": "fs",
	"ClientAllocations.Signal": "signal", "ClientAllocations.GarbageCollect": "gc", "FileSystem.List": "fs", "FileSystem.Stat": "fs", "FileSystem.Stream": "fs", "FileSystem.Logs": "logs", "Allocations.Exec": "exec",
}

// about sets the right and the object that a request needs, if the method alone does not determine
// them.
func (n *notebook) about(param string, q *acls.ExplainRequest) {
	set := func(kind, right, name string) { q.Kind, q.Right, q.Name = kind, right, name }
	if right := rightsOnAllocs[n.method]; right != "" {
		set(acls.ExplainAllocation, right, param)
		return
	}
	switch req := n.request.(type) {
	case *message.VariablesReadRequest:
		set("variable", "read", req.Path)
	case *message.VariablesRenewLockRequest:
		set("variable", "write", req.Path)
	case *message.VariablesApplyRequest:
		if set("variable", "write", req.Var.Path); req.Op.Deletes() {
			q.Right = "destroy"
		}
	case *message.JobRegisterRequest:
		set(acls.ExplainJob, "run", req.Job.ID)
	case *message.JobPlanRequest:
		set(acls.ExplainJob, "plan", req.Job.ID)
	case *message.JobDeregisterRequest:
		if set(acls.ExplainJob, "stop", req.JobID); req.Purge {
			q.Right = "purge"
		}
	case *message.NodePoolSpecificRequest:
		set("node_pool", "read", req.Name)
	case *message.NodePoolUpsertRequest:
		set("node_pool", "write", req.NodePools[0].Name)
	case *message.NodePoolDeleteRequest:
		set("node_pool", "delete", req.Names[0])
	case *message.NodeUpdateDrainRequest:
		set("node", "write", "")
	case *message.NodeSpecificRequest:
		if n.method == "Node.GetNode" {
			set("node", "read", "")
		}
	}
}

// nowhere is an http.ResponseWriter that discards the reply.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
