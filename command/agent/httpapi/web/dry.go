package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// DryRun is a request to this agent whose rights are in question. It is not executed.
type DryRun struct {
	Method, Path string
	Body         json.RawMessage
}

// QuestionOf sets the method or the object of q to the right that the asked request requires. It
// runs the handler of the route against a refuser, which records the RPC and refuses it. The body is
// read only if the caller may make the call with some body.
func (r *Request) QuestionOf(asked *DryRun, q *message.ACLExplainRequest) error {
	s := r.server
	noted := &notebook{}
	req, err := http.NewRequestWithContext(context.WithValue(r.Context(), notebookKey{}, noted), asked.Method, "http://agent"+asked.Path,
		bytes.NewReader(asked.Body))
	if err != nil || !strings.HasPrefix(asked.Path, "/") {
		return apierror.Errorf(http.StatusBadRequest, "invalid request %q %q: use a method and a path, such as GET /v1/jobs", asked.Method,
			asked.Path)
	}
	rt, param, allowed := s.dry.routes.match(req.Method, req.URL.EscapedPath())
	switch {
	case rt != nil:
	case len(allowed) > 0:
		return apierror.Errorf(http.StatusBadRequest, "%s accepts %s, not %s", req.URL.Path, strings.Join(allowed, " "), req.Method)
	default:
		return apierror.Errorf(http.StatusBadRequest, "unknown route %s", req.URL.Path)
	}
	dry := &Request{Request: req, server: s.dry, Reply: nowhere{}, Param: param, Query: req.URL.Query()}
	if s.askFor(r, rt, dry.Query.Get("namespace")) != nil {
		q.Method, q.Namespace = rt.Call.Method, dry.Namespace()
		return nil
	}
	_, err = rt.Handle(dry)
	if own := noted.own; own != nil && own.Kind != "" {
		q.Kind, q.Right, q.Name, q.Namespace = string(own.Kind), own.Rights[0], own.Name, dry.Namespace()
		return nil
	}
	if noted.method == "" {
		return apierror.Errorf(http.StatusBadRequest, "the request requires no right, or fails before a right is checked: %v",
			cmp.Or(err, errors.New("the agent answers it locally")))
	}
	q.Method, q.Namespace = noted.method, dry.Namespace()
	if noted.request != nil {
		q.Namespace = noted.request.Envelope().Namespace
	}
	if noted.about(param, q); q.Kind != "" {
		q.Method = ""
	}
	return nil
}

// Needed is what a route requires of its caller: the rights of the RPC that it makes, or a right that
// the agent checks itself. Both are empty if the agent answers every caller.
type Needed struct {
	Method string
	Own    acl.Question
}

// Needed returns what a route requires, for the reference of the API. The request is not executed.
func (s *Server) Needed(asked DryRun) (Needed, error) {
	noted := &notebook{}
	req, err := http.NewRequestWithContext(context.WithValue(context.Background(), notebookKey{}, noted), asked.Method,
		"http://agent"+asked.Path, bytes.NewReader(asked.Body))
	if err != nil {
		return Needed{}, fmt.Errorf("describe %s %s: %w", asked.Method, asked.Path, err)
	}
	rt, param, _ := s.dry.routes.match(req.Method, req.URL.EscapedPath())
	if rt == nil {
		return Needed{}, fmt.Errorf("describe %s %s: no such route", asked.Method, asked.Path)
	}
	if rt.Call.Method != "" {
		return Needed{Method: rt.Call.Method}, nil
	}
	_, err = rt.Handle(&Request{Request: req, server: s.dry, Reply: nowhere{}, Param: param, Query: req.URL.Query()})
	out := Needed{Method: noted.method}
	if noted.own != nil {
		out.Own = *noted.own
	}
	if out.Method == "" && noted.own == nil && err != nil && !errors.Is(err, ErrDone) {
		return out, fmt.Errorf("describe %s %s: %w", asked.Method, asked.Path, err)
	}
	return out, nil
}

// newDry returns a Server for dry runs: its RPCs are recorded and refused.
func newDry(region string, routes []Route) *Server {
	return &Server{cfg: Config{RPC: refuser{}, Region: region, Log: slog.New(slog.DiscardHandler)}, routes: newRouter(routes)}
}

// notebook records the first RPC of a dry run, or the right that the agent requires.
type notebook struct {
	method  string
	request rpc.Request // nil for a stream
	own     *acl.Question
}

// notes reports whether the request is a dry run, and if so records the right that the agent
// requires.
func (r *Request) notes(q acl.Question) bool {
	n, ok := r.Context().Value(notebookKey{}).(*notebook)
	if ok && n.own == nil {
		n.own = &q
	}
	return ok
}

// IsDry reports whether the request is a dry run.
func (r *Request) IsDry() bool {
	_, ok := r.Context().Value(notebookKey{}).(*notebook)
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
	return apierror.ErrPermissionDenied
}

// Stream implements RPC.
func (r refuser) Stream(ctx context.Context, method string) (*rpc.Stream, error) {
	return nil, r.Call(ctx, method, nil, nil)
}

// rightsOnAllocs maps methods to the right on an allocation that they require.
var rightsOnAllocs = map[string]string{
	"Alloc.GetAlloc": "read", "Alloc.Stop": "restart", "ClientAllocations.Stats": "read", "ClientAllocations.Checks": "read",
	"ClientAllocations.Restart": "restart", "ClientAllocations.Sandbox": "fs",
	"ClientAllocations.Signal": "signal", "ClientAllocations.GarbageCollect": "gc", "FileSystem.List": "fs", "FileSystem.Stat": "fs",
	"FileSystem.Stream": "fs", "FileSystem.Logs": "logs", "Allocations.Exec": "exec", "Allocations.PortForward": "alloc-port-forward",
}

// about sets the right and the object that a request needs, if the method alone does not determine
// them.
func (n *notebook) about(param string, q *message.ACLExplainRequest) {
	set := func(kind, right, name string) { q.Kind, q.Right, q.Name = kind, right, name }
	if right := rightsOnAllocs[n.method]; right != "" {
		set(message.ACLExplainAllocation, right, param)
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
		set(message.ACLExplainJob, "run", req.Job.ID)
		q.Job = req.Job
	case *message.JobPlanRequest:
		set(message.ACLExplainJob, "plan", req.Job.ID)
		q.Job = req.Job
	case *message.JobDeregisterRequest:
		if set(message.ACLExplainJob, "stop", req.JobID); req.Purge {
			q.Right = "purge"
		}
	case *message.JobDispatchRequest:
		set(message.ACLExplainJob, "dispatch", req.JobID)
	case *message.PeriodicForceRequest:
		set(message.ACLExplainJob, "force", req.JobID)
	case *message.JobStabilityRequest:
		set(message.ACLExplainJob, "stable", req.JobID)
	case *message.JobScaleRequest:
		set(message.ACLExplainJob, "scale", req.JobID)
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
