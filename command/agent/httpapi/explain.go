package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// explainRoutes are ours: who may do what, and why.
func (s *Server) explainRoutes() []route {
	return []route{{methods: "GET PUT POST", path: "/v1/acl/explain", handle: read("ACL.Explain", s.explainQuestion, whole[nomad.ACLExplainResponse])}}
}

// explainBody is a question: about a right on a thing, or about a request.
type explainBody struct {
	Kind, Name, Right        string
	AccessorID, Role, Policy string
	Workload                 *nomad.JobACL
	Everybody                bool
	Request                  *explainRequest
}

// explainRequest is a request to this agent whose RPC is in question. It is not made.
type explainRequest struct {
	Method, Path string
	Body         json.RawMessage
}

// explainQuestion takes the question from the body, or of a GET from the query.
func (s *Server) explainQuestion(r *request, q *nomad.ACLExplainRequest) error {
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
	q.Method, q.Namespace, err = s.rpcOf(r.Context(), b.Request)
	return err
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
		b.Workload = &nomad.JobACL{Namespace: w.Namespace, JobID: w.JobID, Group: w.Group, Task: w.Task}
	}
	b.Everybody, err = r.flag("everybody")
	return err
}

// rpcOf finds out which RPC a request makes, and in which namespace: it runs the route
// with servers that refuse everything, after they noted what they were asked.
func (s *Server) rpcOf(ctx context.Context, asked *explainRequest) (method, namespace string, err error) {
	noted := &notebook{}
	dry := &Server{cfg: Config{RPC: noted, Agent: s.cfg.Agent, Region: s.cfg.Region, Log: slog.New(slog.DiscardHandler)}}
	dry.routes = newRouter(dry.rpcRoutes())
	req, err := http.NewRequestWithContext(ctx, asked.Method, "http://agent"+asked.Path, bytes.NewReader(asked.Body))
	if err != nil || !strings.HasPrefix(asked.Path, "/") {
		return "", "", nomad.Errorf(http.StatusBadRequest, "a request is a method and a path, such as GET /v1/jobs, not %q %q", asked.Method, asked.Path)
	}
	rt, param, allowed := dry.routes.match(req.Method, req.URL.EscapedPath())
	switch {
	case rt != nil:
	case len(allowed) > 0:
		return "", "", nomad.Errorf(http.StatusBadRequest, "%s takes %s, not %s", req.URL.Path, strings.Join(allowed, " "), req.Method)
	default:
		return "", "", nomad.Errorf(http.StatusBadRequest, "no server answers %s: it is of the agent itself, or of nobody", req.URL.Path)
	}
	r := &request{Request: req, server: dry, w: nowhere{}, param: param, query: req.URL.Query()}
	_, err = rt.handle(r)
	if noted.method == "" {
		return "", "", nomad.Errorf(http.StatusBadRequest, "the request does not come as far as to a server: %v", cmp.Or(err, errors.New("the agent answers by itself")))
	}
	if noted.namespace == "" {
		noted.namespace = r.namespace()
	}
	return noted.method, noted.namespace, nil
}

// notebook are servers that note the first thing that they are asked, and refuse it.
type notebook struct{ method, namespace string }

func (n *notebook) note(method, namespace string) error {
	if n.method == "" {
		n.method, n.namespace = method, namespace
	}
	return nomad.ErrPermissionDenied
}

// Call notes and refuses.
func (n *notebook) Call(_ context.Context, method string, req, _ any) error {
	namespace := ""
	if r, ok := req.(rpc.Request); ok {
		namespace = r.Envelope().Namespace
	}
	return n.note(method, namespace)
}

// Stream notes and refuses.
func (n *notebook) Stream(_ context.Context, method string) (*rpc.Stream, error) {
	return nil, n.note(method, "")
}

// nowhere is the writer of an answer that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
