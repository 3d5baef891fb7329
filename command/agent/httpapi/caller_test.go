package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// policies authenticates callers, which have the rights of the policy with their name. With off
// every caller with a valid token has all rights.
type policies struct {
	off  bool
	text map[string]string
}

func (p policies) Access(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	id, err := everybody{}.Authenticate(ctx, token, rpc.Token, nil)
	if err != nil {
		return nil, nil, err
	}
	if p.off {
		return id, &rpc.Access{Rights: acl.New(true), Disabled: true}, nil
	}
	parsed, err := acl.Parse(p.text[token])
	if err != nil {
		return id, &rpc.Access{Rights: acl.New(token == "all")}, nil
	}
	return id, &rpc.Access{Rights: acl.New(false, parsed)}, nil
}

func (p policies) AccessNow(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	return p.Access(ctx, token)
}

// idle is an agent whose methods do nothing.
type idle struct{}

func (idle) Self() map[string]any                                    { return map[string]any{"config": "x"} }
func (idle) Health() (client, server *Health)                        { return nil, nil }
func (idle) Servers() []string                                       { return []string{"127.0.0.1:4647"} }
func (idle) SetServers([]string) error                               { return nil }
func (idle) NodeID() string                                          { return "n" }
func (idle) Metrics(http.ResponseWriter, *http.Request) (any, error) { return map[string]int{}, nil }
func (idle) Prometheus() http.Handler                                { return nil }
func (idle) Reload() error                                           { return nil }
func (idle) Schedulers() *Schedulers                                 { return &Schedulers{} }
func (idle) SetSchedulers(int, []string)                             {}

// Routes that an agent answers locally check the token. Workload identities cannot use those that
// change the agent or show its memory.
func TestAgentRoutes_NeedTokens(t *testing.T) {
	s := newTestServer(t, 0)
	s = changed(s, func(c *Config) { c.Debug, c.Agent = true, idle{} })
	for _, path := range []string{"GET /v1/agent/self", "GET /v1/agent/servers", "GET /v1/agent/schedulers",
		"PUT /v1/agent/schedulers/config", "GET /v1/metrics", "PUT /v1/agent/servers", "PUT /v1/agent/join", "PUT /v1/agent/force-leave",
		"PUT /v1/agent/reload",
		"GET /v1/agent/keyring/list", "GET /debug/pprof/", "GET /debug/pprof/cmdline", "GET /debug/pprof/heap"} {
		method, path := path[:3], path[4:]
		operators := method == "PUT" || path[:7] == "/debug/" || path == "/v1/agent/keyring/list"
		for token, refused := range map[string]bool{"": false, "bad": true, "mine": operators} {
			w := do(s, method, path, "", "X-Nomad-Token", token)
			if denied := w.Code == http.StatusForbidden && w.Body.String() == "Permission denied"; denied != refused {
				t.Errorf("%s %s with token %q = %d %.100s", method, path, token, w.Code, w.Body)
			}
		}
	}
}

// With ACLs every route that the agent answers locally checks its right.
func TestAgentRoutesAskForRights(t *testing.T) {
	s := newTestServer(t, 0)
	allowed := policies{text: map[string]string{
		"reader": `agent { policy = "read" }`, "writer": `agent { policy = "write" }`, "mine": `agent { policy = "write" }`,
		"parser": `namespace "default" { capabilities = ["parse-job"] }`, "submitter": `namespace "default" { capabilities = ["submit-job"] }`,
		"elsewhere": `namespace "other" { policy = "write" }`,
	}}
	s = changed(s, func(c *Config) { c.Debug, c.Agent, c.ACL, c.Callers = true, idle{}, true, allowed })
	people := []string{"", "reader", "writer", "mine", "parser", "submitter", "elsewhere", "all"}
	reads, writes := []string{"reader", "writer", "mine", "all"}, []string{"writer", "mine", "all"}
	for route, may := range map[string][]string{
		"GET /v1/agent/schedulers": reads, "GET /v1/agent/schedulers/config": reads, "PUT /v1/agent/schedulers/config": writes,
		"GET /v1/agent/self": reads, "GET /v1/agent/servers": reads, "PUT /v1/agent/servers?address=127.0.0.1": writes,
		"PUT /v1/agent/reload": writes,
		"PUT /v1/agent/join":   writes, "PUT /v1/agent/force-leave": writes, "GET /v1/agent/keyring/list": writes,
		"PUT /v1/agent/keyring/install": writes,
		"PUT /v1/agent/keyring/use":     writes, "PUT /v1/agent/keyring/remove": writes, "GET /debug/pprof/": writes,
		"GET /debug/pprof/cmdline": writes,
		"GET /debug/pprof/heap":    writes, "GET /v1/metrics": reads, "GET /v1/agent/health": append(people, "bad"),
		"PUT /v1/jobs/parse": {"parser", "submitter", "all"}, "PUT /v1/jobs/parse?namespace=other": {"elsewhere", "all"},
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, who := range append(people, "bad") {
			w := do(s, method, path, `{}`, "X-Nomad-Token", who)
			if denied := w.Code == http.StatusForbidden; denied == slices.Contains(may, who) {
				t.Errorf("%q asks for %s: %d %.100s", who, route, w.Code, w.Body)
			}
		}
	}
	w := do(s, "PUT", "/v1/agent/reload", "", "X-Nomad-Token", "reader")
	if want := "needs write of agent: Permission denied"; w.Body.String() != want {
		t.Errorf("a caller without the right gets %q, want %q", w.Body, want)
	}
	s = changed(s, func(c *Config) { c.OpenMetrics = true })
	for who, code := range map[string]int{"": http.StatusOK, "submitter": http.StatusOK, "bad": http.StatusForbidden} {
		if w := do(s, "GET", "/v1/metrics", "", "X-Nomad-Token", who); w.Code != code {
			t.Errorf("%q asks for metrics with OpenMetrics: %d, want %d", who, w.Code, code)
		}
	}
	s = changed(s, func(c *Config) { c.Callers = nil })
	if w := do(s, "GET", "/v1/agent/self", ""); w.Code == http.StatusOK {
		t.Error("an agent that cannot authenticate callers admits everybody")
	}
}
