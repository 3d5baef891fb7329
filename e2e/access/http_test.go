package access

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/nomad"
)

// publicRoutes answer all callers, even with bad tokens.
var publicRoutes = map[string]bool{
	"GET /v1/status/leader": true, "GET /v1/status/peers": true, "GET /v1/regions": true, "GET /v1/agent/health": true,
	// the files of the web UI
	"GET /": true, "GET /ui": true, "GET /ui/": true, "GET /ui/:page": true, "HEAD /ui/": true, "HEAD /ui/:page": true,
	"GET /.well-known/jwks.json": true, "GET /.well-known/openid-configuration": true, "GET /v1/acl/auth-methods": true,
	"GET /v1/spiffe/bundle": true,
}

// routes requests every route of an agent as every caller.
func (h *house) routes(name string, a *cluster.Agent, callers []caller) {
	t := h.t
	t.Helper()
	m := newMatrix(callers)
	table := httpapi.New(httpapi.Config{Config: web.Config{Log: slog.New(slog.DiscardHandler)}}).Routes()
	for _, row := range table {
		m.row(row, "")
	}
	before := h.things()
	for _, c := range callers {
		if c.name == management {
			h.unchanged(before)
		}
		for _, row := range table {
			code, text := h.get(t, c, a, row)
			m.set(row, c.name, fmt.Sprint(code))
			h.leaks(t, row, c, text)
			if want := faults[row]; code == http.StatusInternalServerError && (want == "" || !strings.Contains(text, want)) {
				t.Errorf("%s as %s: %d %s", row, c.name, code, text)
			}
			if code == http.StatusForbidden && !strings.Contains(text, "Permission denied") {
				t.Errorf("%s as %s: %d %q does not say that it is denied", row, c.name, code, text)
			}
		}
	}
	m.sane(t, publicRoutes)
	m.checkNodesPage(t, "none")
	m.compare(t, name)
}

// get requests one route.
func (h *house) get(t *testing.T, c caller, a *cluster.Agent, row string) (int, string) {
	method, path, _ := strings.Cut(row, " ")
	query := url.Values{"namespace": {c.query}, "region": {"global"}}
	for k, v := range h.query(path) {
		query.Set(k, v)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, a.Address()+h.path(path)+"?"+query.Encode(),
		strings.NewReader(h.body(method, path)))
	if err != nil {
		t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("X-Nomad-Token", c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatalf("%s as %s: %v", row, c.name, err)
	}
	defer resp.Body.Close()
	if path == "/v1/event/stream" || path == "/v1/agent/monitor" { // the stream has no end, but its first part comes at once
		defer time.AfterFunc(300*time.Millisecond, func() { resp.Body.Close() }).Stop()
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// path fills in the parameters of a route.
func (h *house) path(path string) string {
	before, after, ok := strings.Cut(path, ":")
	if !ok {
		return path
	}
	param, rest, _ := strings.Cut(after, "/")
	if rest != "" {
		rest = "/" + rest
	}
	value := map[string]string{
		"alloc_id": h.alloc,
		"eval_id":  h.eval,
		"node_id":  h.victim.id,
		"job_id":   "api",
		"path":     "nomad/jobs/api",
		"key_id":   nomad.NewID(),
	}[param]
	switch {
	case value != "":
	case strings.HasPrefix(before, "/v1/deployment/"):
		value = h.deployment
	case strings.HasPrefix(before, "/v1/node/pool/"):
		value = "default"
	case strings.HasPrefix(before, "/v1/namespace/"):
		value = prod
	default:
		value = "nothing"
	}
	return before + value + rest
}

// query returns the query parameters that some routes need.
func (h *house) query(path string) map[string]string {
	switch {
	case path == "/v1/job/:job_id/submission":
		return map[string]string{"version": "0"}
	case strings.HasPrefix(path, "/v1/client/fs/"):
		return map[string]string{
			"offset": "0",
			"limit":  "10",
			"origin": "start",
			"path":   "alloc/logs/t.stdout.0",
			"task":   "t",
			"type":   "stdout",
			"follow": "false",
			"plain":  "true",
		}
	case strings.HasSuffix(path, "/detach"):
		return map[string]string{"node": h.victim.id}
	case path == "/v1/volumes/external", path == "/v1/volumes/snapshot":
		return map[string]string{"plugin_id": "nothing", "snapshot_id": "nothing"}
	case strings.HasPrefix(path, "/v1/client/"):
		return map[string]string{"node_id": h.victim.id}
	case path == "/v1/operator/raft/peer":
		return map[string]string{"id": nomad.NewID()}
	case path == "/v1/operator/raft/transfer-leadership":
		return map[string]string{"id": nomad.NewID()}
	case path == "/v1/event/stream":
		return map[string]string{"topic": "Job"}
	case path == "/v1/agent/join":
		return map[string]string{"address": "127.0.0.1:1"}
	case path == "/v1/agent/force-leave":
		return map[string]string{"node": "nothing"}
	case path == "/v1/agent/servers":
		return map[string]string{"address": h.rpcAddr()}
	}
	return nil
}

// body returns the body that some routes need. Objects are in prod, whatever the query.
func (h *house) body(method, path string) string {
	const job = `{"ID": "new", "Name": "new", "Namespace": "prod", "Type": "batch", "Datacenters": ["*"], "TaskGroups": [{"Name": "g", "Count": 0,
		"Tasks": [{"Name": "t", "Driver": "exec2", "Config": {"command": "/bin/true"}}]}]}`
	if method == http.MethodGet || method == http.MethodDelete {
		return ""
	}
	switch path {
	case "/v1/jobs", "/v1/validate/job":
		return `{"Job": ` + job + `}`
	case "/v1/job/:job_id", "/v1/job/:job_id/plan":
		return `{"Job": ` + strings.ReplaceAll(job, `"new"`, `"api"`) + `}`
	case "/v1/jobs/statuses":
		return `{"jobs": []}`
	case "/v1/search/fuzzy":
		return `{"Text": "api"}`
	case "/v1/jobs/stop", "/v1/job/:job_id/dispatch", "/v1/job/:job_id/stable", "/v1/job/:job_id/evaluate":
		return `{"JobID": "api"}`
	case "/v1/job/:job_id/scale":
		return `{"Target": {"Group": "g"}, "Message": "m"}`
	case "/v1/node/pools", "/v1/node/pool/:name":
		return `{"Name": "new"}`
	case "/v1/jobs/parse":
		return `{"JobHCL": "job \"x\" {}"}`
	case "/v1/var/:path":
		return `{"Namespace": "prod", "Path": "nomad/jobs/api", "Items": {"k": "v"}}`
	case "/v1/node/:node_id/eligibility":
		return `{"Eligibility": "ineligible"}`
	case "/v1/node/:node_id/drain":
		return `{"DrainSpec": null, "MarkEligible": false}`
	case "/v1/namespace", "/v1/namespace/:name":
		return `{"Name": "prod"}`
	case "/v1/client/allocation/:alloc_id/signal":
		return `{"Signal": "SIGCONT"}`
	case "/v1/acl/policy/:name":
		return `{"Name": "nothing", "Rules": "node { policy = \"read\" }"}`
	}
	return "{}"
}
