package access

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// caller is one column of the matrix.
type caller struct {
	name  string
	token string
	// query is the namespace that it requests: prod, except for callers that name another one.
	query string
	pool  *rpc.Pool
	http  *http.Client
}

// callers returns the columns. Management comes last, since its calls take effect.
func (h *house) callers() []caller {
	h.t.Helper()
	all := []caller{
		{name: "none"},
		{name: "expired", token: h.expire},
		{name: "other namespace", token: h.token(&api.ACLToken{Policies: []string{"of-mine"}})},
		{name: "other namespace, lying", token: h.token(&api.ACLToken{Policies: []string{"of-mine"}}), query: local},
		{name: "denied", token: h.token(&api.ACLToken{Policies: []string{"of-prod", "denier"}})},
		{name: "workload without policy", token: h.workloads["plain"]},
		{name: "workload, prefix of another", token: h.workloads["mi"]},
		{name: "workload, longer than another", token: h.workloads["middle"]},
		{name: "workload that is over", token: h.workloads["over"]},
		{name: "node", token: h.near.jwt},
		{name: "node of another pool", token: h.far.jwt},
		{name: "introduction", token: h.introduction},
		{name: "client certificate"},
		{name: "server certificate"},
		{name: "read only", token: h.token(&api.ACLToken{Policies: []string{"reader"}})},
		{name: management, token: h.token(&api.ACLToken{Type: "management"})},
	}
	for i := range all {
		c := &all[i]
		// RPC requires an agent's certificate. A token's holder uses a client's certificate, like
		// calls that a client forwards.
		files := h.clientFiles
		switch c.name {
		case "none":
			files = h.userFiles
		case "server certificate":
			files = h.serverFiles
		}
		if c.query == "" {
			c.query = prod
		}
		c.pool, c.http = h.pool(files), h.web(files)
	}
	return all
}

// web returns an HTTP client with the certificate of some files.
func (h *house) web(files testpki.Files) *http.Client {
	h.t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	h.must(err)
	text, err := os.ReadFile(files.CA)
	h.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: callLimit}
}

// callLimit bounds one call.
const callLimit = 2 * time.Minute

// never reports whether a caller must always be rejected.
func never(name string) bool {
	switch name {
	case "expired", "workload that is over", "introduction":
		return true
	}
	return false
}

// Each part has its own agents: the calls of management destroy their state.
func TestMatrix(t *testing.T) {
	for name, part := range map[string]func(*house, []caller){
		"rpc":         (*house).rpcs,
		"http":        func(h *house, callers []caller) { h.routes("http", h.server, callers) },
		"http-client": func(h *house, callers []caller) { h.routes("http-client", h.client, callers) },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			callers := h.callers()
			h.known = h.secrets(callers)
			part(h, callers)
			h.noneExposed()
		})
	}
}

// management is the last column.
const management = "management"

// things returns the index of the last change of each object in prod and of the nodes.
func (h *house) things() map[string]uint64 {
	h.t.Helper()
	in := &api.QueryOptions{Namespace: prod}
	out := map[string]uint64{}
	jobs, _, err := h.api.Jobs().List(in)
	h.must(err)
	for _, j := range jobs {
		out["job "+j.ID] = j.JobModifyIndex
	}
	vars, _, err := h.api.Variables().List(in)
	h.must(err)
	for _, v := range vars {
		out["variable "+v.Path] = v.ModifyIndex
	}
	nodes, _, err := h.api.Nodes().List(nil)
	h.must(err)
	for _, n := range nodes {
		out["node "+n.ID+" "+n.SchedulingEligibility] = 1
	}
	policies, _, err := h.api.ACLPolicies().List(nil)
	h.must(err)
	for _, p := range policies {
		out["policy "+p.Name] = p.ModifyIndex
	}
	tokens, _, err := h.api.ACLTokens().List(nil)
	h.must(err)
	for _, t := range tokens {
		out["token "+t.AccessorID] = t.ModifyIndex
	}
	return out
}

// unchanged compares the state with before: callers without rights must not have changed anything.
// The one-time tokens of some callers are ignored.
func (h *house) unchanged(before map[string]uint64) {
	h.t.Helper()
	if now := h.things(); !maps.Equal(before, now) {
		h.t.Errorf("there was: %v\nthere is: %v", before, now)
	}
}
