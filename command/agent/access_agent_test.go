package agent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// as sends a request to an agent with a token.
func as(t *testing.T, a *agent.Agent, token, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+a.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("X-Nomad-Token", token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// decoded is like as, but requires success and decodes the response.
func decoded[T any](t *testing.T, a *agent.Agent, token, method, path, body string) (out T) {
	t.Helper()
	code, text := as(t, a, token, method, path, body)
	if code != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return out
}

type secret struct{ SecretID string }

// A server and a client with ACLs answer no request without a token with the required right,
// whichever of them has the requested data.
func TestAccessThroughServerAndClient(t *testing.T) {
	const on = "acl { enabled = true }\n"
	srv, _ := run(t, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", write(t, free+on))
	var leader string
	testpace.Until(t, "there is a leader", func() bool { return get(srv, "/v1/status/leader", &leader) == nil && leader != "" })
	cl, _ := run(t, "-client", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-servers", leader,
		"-config", write(t, free+on+"plugin \"mock_driver\" {}\n"))
	var first secret
	testpace.Until(t, "there is a first token", func() bool { // the leader may not be ready
		code, text := as(t, srv, "", "PUT", "/v1/acl/bootstrap", "")
		return code == http.StatusOK && json.Unmarshal([]byte(text), &first) == nil
	})
	root := first.SecretID
	token := func(name, rules string) string {
		body := fmt.Sprintf(`{"Name": %q, "Rules": %q}`, name, rules)
		if code, text := as(t, srv, root, "PUT", "/v1/acl/policy/"+name, body); code != http.StatusOK {
			t.Fatalf("policy %s: %d %s", name, code, text)
		}
		return decoded[secret](t, srv, root, "PUT", "/v1/acl/token", fmt.Sprintf(`{"Type": "client", "Policies": [%q]}`, name)).SecretID
	}
	bearers := map[string]string{"": "", "bad": "11111111-2222-4333-8444-555555555555", "root": root,
		"writer":    token("writer", `namespace "default" { policy = "write" }`),
		"elsewhere": token("elsewhere", `namespace "other" { policy = "write" }`),
		"nodes":     token("nodes", `node { policy = "write" }`), "agents": token("agents", `agent { policy = "write" }`)}
	job := `{"Job": {"ID": "j", "Name": "j", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [
		{"Name": "main", "Driver": "mock_driver", "Config": {"run_for": "1h"}, "Resources": {"CPU": 10, "MemoryMB": 10}}]}]}}`
	if code, text := as(t, cl, bearers["elsewhere"], "PUT", "/v1/jobs", job); code != http.StatusForbidden ||
		!strings.Contains(text, "submit-job") {
		t.Errorf("a job of others: %d %s", code, text)
	}
	if code, text := as(t, cl, bearers["writer"], "PUT", "/v1/jobs", job); code != http.StatusOK {
		t.Fatalf("a job: %d %s", code, text)
	}
	type stub struct{ ID, ClientStatus string }
	var allocs []stub
	testpace.Until(t, "the job runs", func() bool {
		allocs = decoded[[]stub](t, srv, bearers["writer"], "GET", "/v1/job/j/allocations", "")
		return len(allocs) == 1 && allocs[0].ClientStatus == "running"
	})
	alloc, node := allocs[0].ID, "?node_id="+cl.NodeID()
	writer, nodes, agents := []string{"root", "writer"}, []string{"root", "nodes"}, []string{"root", "agents"}
	for route, may := range map[string][]string{
		"GET /v1/client/fs/ls/" + alloc + "?path=/": writer, "GET /v1/client/fs/stat/" + alloc + "?path=/alloc": writer,
		"GET /v1/client/fs/logs/" + alloc + "?task=main&type=stdout": writer, "GET /v1/client/allocation/" + alloc + "/stats": writer,
		"GET /v1/client/allocation/" + alloc + "/checks": writer, "GET /v1/allocation/" + alloc: writer, "GET /v1/job/j": writer,
		"GET /v1/client/stats" + node: nodes, "GET /v1/client/identity" + node: nodes, "GET /v1/nodes": nodes,
		"GET /v1/agent/self": agents, "GET /v1/metrics": agents, "PUT /v1/agent/reload": agents,
		"PUT /v1/jobs/parse": writer, "GET /v1/agent/members": nodes, "GET /v1/operator/scheduler/configuration": {"root"},
	} {
		method, path, _ := strings.Cut(route, " ")
		body := ""
		if strings.HasSuffix(path, "parse") {
			body = `{"JobHCL": "job \"p\" {}"}`
		}
		for name, a := range map[string]*agent.Agent{"server": srv, "client": cl} {
			for who, secret := range bearers {
				code, text := as(t, a, secret, method, path, body)
				hidden := code == http.StatusNotFound && strings.Contains(text, "(or your token lacks ")
				if refused := code == http.StatusForbidden || hidden; refused == slices.Contains(may, who) || !refused && code != http.StatusOK {
					t.Errorf("%q asks the %s for %s: %d %.200s", who, name, route, code, text)
				}
			}
		}
	}
	for _, path := range []string{"/v1/agent/health", "/v1/status/leader", "/v1/status/peers", "/v1/regions", "/.well-known/jwks.json"} {
		for name, a := range map[string]*agent.Agent{"server": srv, "client": cl} {
			if code, text := as(t, a, "", "GET", path, ""); code != http.StatusOK {
				t.Errorf("everybody asks the %s for %s: %d %.100s", name, path, code, text)
			}
		}
	}
}

// With the key set, only metrics are served without a token.
func TestAnonymousMetrics(t *testing.T) {
	a, _ := run(t, serverOnly(t, write(t, free+
		"acl {\n enabled = true\n}\ntelemetry {\n prometheus_metrics = true\n allow_anonymous_metrics = true\n}\n"))...)
	testpace.Until(t, "metrics are served", func() bool {
		code, _ := as(t, a, "", "GET", "/v1/metrics", "")
		return code == http.StatusOK
	})
	if code, text := as(t, a, "", "GET", "/v1/agent/self", ""); code != http.StatusForbidden {
		t.Errorf("/v1/agent/self without a token = %d %s, want 403", code, text)
	}
}
