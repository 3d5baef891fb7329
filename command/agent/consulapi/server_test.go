package consulapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/consulapi"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

const secret = "11111111-2222-3333-4444-555555555555"

// region is a region in memory. The zero value is empty. A call with another token than secret, or without one, is
// refused if acl is set.
type region struct {
	mu      sync.Mutex
	acl     bool
	index   uint64
	changed chan struct{}
	rows    []*catalog.Instance
	nodes   []*nomad.NodeListStub
	vars    []*variable.Decrypted
	calls   []string
	tokens  []string
}

func newRegion() *region {
	r := &region{index: 7, changed: make(chan struct{})}
	r.nodes = []*nomad.NodeListStub{
		{ID: "n2", Name: "beta", Address: "10.0.0.2", Datacenter: "dc1", Status: "down", Meta: map[string]string{"rack": "r2"}},
		{ID: "n1", Name: "alpha", Address: "10.0.0.1", Datacenter: "dc1", Status: "ready", Meta: map[string]string{"rack": "r1"}},
		{ID: "n3", Name: "gamma", Address: "10.0.0.3", Datacenter: "dc2", Status: "ready"},
	}
	web := func(id, node, name, status string, tags ...string) *catalog.Instance {
		return &catalog.Instance{NodeName: name, NodeAddress: "10.0.0." + node[1:], NodeStatus: status, NodeMeta: map[string]string{"rack": "r" + node[1:]},
			Registration: catalog.Registration{ID: id, ServiceName: "web", Namespace: "default", NodeID: node, Datacenter: "dc1", Tags: tags,
				Address: "192.0.2.1", Port: 8080, CreateIndex: 5, ModifyIndex: 6}}
	}
	sick := web("w3", "n1", "alpha", "ready", "v2")
	sick.Status, sick.Checks = catalog.Critical, []*catalog.Check{{ID: "c1", Name: "alive", Type: "http", Status: catalog.Critical, Output: "refused"}}
	far := web("w4", "n3", "gamma", "ready")
	far.Datacenter = "dc2"
	r.rows = []*catalog.Instance{web("w2", "n2", "beta", "down", "V1"), web("w1", "n1", "alpha", "ready", "v1", "prod"), sick, far}
	r.vars = []*variable.Decrypted{keyVar("consul/app/db/host", "db1"), keyVar("consul/app/db/port", "5432"), keyVar("consul/app/name", "")}
	return r
}

func keyVar(path, value string) *variable.Decrypted {
	return &variable.Decrypted{Metadata: variable.Metadata{Path: path, CreateIndex: 3, ModifyIndex: 4}, Items: variable.Items{"value": value}}
}

// change changes the region and wakes blocking queries.
func (r *region) change(edit func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit()
	r.index++
	close(r.changed)
	r.changed = make(chan struct{})
}

// made returns the number of calls.
func (r *region) made() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// await waits until the region has more calls than n.
func (r *region) await(t *testing.T, n int) {
	t.Helper()
	testpace.Until(t, "another call", func() bool { return r.made() > n })
}

// Call implements web.RPC.
func (r *region) Call(ctx context.Context, method string, req, resp any) error {
	if q, ok := req.(interface{ Query() *message.QueryOptions }); ok {
		r.mu.Lock()
		r.calls, r.tokens = append(r.calls, method), append(r.tokens, q.Query().AuthToken)
		r.mu.Unlock()
		if r.acl && q.Query().AuthToken != secret {
			return apierror.ErrPermissionDenied
		}
		r.block(ctx, q.Query())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	meta := message.QueryMeta{Index: r.index, KnownLeader: true}
	switch req := req.(type) {
	case *message.ServiceInstancesRequest:
		out := resp.(*message.ServiceInstancesResponse)
		out.QueryMeta = meta
		for _, in := range r.rows {
			if (req.ServiceName == "" || req.ServiceName == in.ServiceName) && (req.NodeID == "" || req.NodeID == in.NodeID) {
				copied := *in
				out.Instances = append(out.Instances, &copied)
			}
		}
	case *message.NodeListRequest:
		out := resp.(*message.NodeListResponse)
		out.QueryMeta = meta
		for _, n := range r.nodes {
			copied := *n
			out.Nodes = append(out.Nodes, &copied)
		}
	case *message.VariablesReadRequest:
		out := resp.(*message.VariablesReadResponse)
		out.QueryMeta = meta
		for _, v := range r.vars {
			if v.Path == req.Path {
				out.Data = v
			}
		}
	case *message.VariablesTreeRequest:
		out := resp.(*message.VariablesTreeResponse)
		out.QueryMeta = meta
		for _, v := range r.vars {
			if strings.HasPrefix(v.Path, req.Prefix) {
				out.Data = append(out.Data, v)
			}
		}
	case *message.VariablesListRequest:
		out := resp.(*message.VariablesListResponse)
		out.QueryMeta = meta
		for _, v := range r.vars {
			if strings.HasPrefix(v.Path, req.Prefix) {
				out.Data = append(out.Data, &v.Metadata)
			}
		}
	case *message.GenericRequest:
		switch out := resp.(type) {
		case *string:
			*out = "10.0.0.9:4647"
		case *[]string:
			*out = []string{"10.0.0.9:4647"}
		}
	default:
		return errors.New("unexpected method " + method)
	}
	return nil
}

// block waits as a blocking RPC does.
func (r *region) block(ctx context.Context, q *message.QueryOptions) {
	if q.MinQueryIndex == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, q.MaxQueryTime)
	defer cancel()
	for {
		r.mu.Lock()
		over, changed := r.index > q.MinQueryIndex, r.changed
		r.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Stream implements web.RPC.
func (r *region) Stream(context.Context, string) (*rpc.Stream, error) {
	return nil, errors.New("no streams")
}

// Access implements web.Callers.
func (r *region) Access(_ context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	return nil, nil, apierror.ErrPermissionDenied
}

// AccessNow implements web.Callers.
func (r *region) AccessNow(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	return r.Access(ctx, token)
}

func newServer(r *region) *consulapi.Server {
	return consulapi.New(consulapi.Config{Address: "127.0.0.1:8500", RPC: r, Callers: r, Region: "global", Datacenter: "dc1", NodeID: "n1",
		NodeName: "alpha", Version: "2.0.0", ACL: r.acl, Log: slog.New(slog.DiscardHandler)})
}

// send sends a request.
func send(s http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, target, nil)
	req.Host = "127.0.0.1:8500"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w
}

// get returns the decoded body of a read.
func get[T any](t *testing.T, s http.Handler, target string) (out T) {
	t.Helper()
	w := send(s, "GET", target)
	if w.Code != 200 {
		t.Fatalf("GET %s: %d: %s", target, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("GET %s: %v: %s", target, err, w.Body)
	}
	return out
}
