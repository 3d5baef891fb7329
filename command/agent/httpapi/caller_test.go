package httpapi

import (
	"net/http"
	"testing"
)

// idle is an agent that does nothing.
type idle struct{}

func (idle) Self() map[string]any                                    { return map[string]any{"config": "x"} }
func (idle) Health() (client, server *Health)                        { return nil, nil }
func (idle) Servers() []string                                       { return []string{"127.0.0.1:4647"} }
func (idle) SetServers([]string) error                               { return nil }
func (idle) NodeID() string                                          { return "n" }
func (idle) Metrics(http.ResponseWriter, *http.Request) (any, error) { return map[string]int{}, nil }
func (idle) Prometheus() http.Handler                                { return nil }
func (idle) Reload() error                                           { return nil }

// What an agent answers by itself looks at the token that it is shown; what changes the
// agent, or shows its memory, is not for the identities of tasks.
func TestAgentRoutesLookAtTokens(t *testing.T) {
	s := newTestServer(t, 0)
	s.cfg.Debug, s.cfg.Agent = true, idle{}
	s.routes = newRouter(s.table())
	for _, path := range []string{"GET /v1/agent/self", "GET /v1/agent/servers", "GET /v1/metrics", "PUT /v1/agent/servers", "PUT /v1/agent/join", "PUT /v1/agent/force-leave", "PUT /v1/agent/reload",
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
