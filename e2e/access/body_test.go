package access

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// bodyForAll are the routes that read the body of every caller, with the reason.
var bodyForAll = map[string]string{
	"/v1/acl/bootstrap":              "makes the first token",
	"/v1/acl/login":                  "callers have no token yet",
	"/v1/acl/oidc/auth-url":          "callers have no token yet",
	"/v1/acl/oidc/complete-auth":     "callers have no token yet",
	"/v1/acl/token/onetime/exchange": "callers have no token yet",
	"/v1/acl/explain":                "everybody may ask about themselves",
	"/v1/search":                     "the context in the body decides the right",
	"/v1/search/fuzzy":               "the context in the body decides the right",
}

// bodyForNone are the routes that read no body and do not answer callers without any right with
// 403.
var bodyForNone = map[string]bool{
	"/ui/": true, "/ui/:page": true, "/v1/allocation/:alloc_id/stop": true, "/v1/client/allocation/:alloc_id/gc": true,
	"/v1/client/gc":         true,
	"/v1/acl/token/onetime": true, // deletes the caller's own token
}

// The agent rejects callers without rights before it reads the body. A body of a megabyte that is
// announced and never sent does not delay the answer.
func TestBodiesWithoutRightsAreNotRead(t *testing.T) {
	h := open(t)
	h.policy("nothing", `agent { policy = "read" }`, "")
	callers := [][2]string{{"nobody", ""}, {"powerless", h.token(&api.ACLToken{Policies: []string{"nothing"}})},
		{"workload", h.workloads["plain"]}, {"unknown token", "5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55"}}
	framings := []string{"Content-Length: 1048576", "Transfer-Encoding: chunked", "Content-Length: 1048576\r\nExpect: 100-continue",
		"X-Nomad-Acl-Reason: 1\r\nContent-Length: 1048576"}
	for place, a := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
		rows := httpapi.New(httpapi.Config{Config: web.Config{Log: slog.New(slog.DiscardHandler)}}).Routes()
		for n, row := range rows {
			method, path, _ := strings.Cut(row, " ")
			if method == http.MethodGet || method == http.MethodPost && slices.Contains(rows, "PUT "+path) ||
				bodyForAll[path] != "" || bodyForNone[path] {
				continue
			}
			for i, c := range callers {
				framing := framings[(n+i)%len(framings)]
				code, text := h.announce(a, method, h.path(path), c[1], framing)
				if code == http.StatusRequestTimeout {
					t.Fatalf("%s at the %s as %s, %s: %d %s", row, place, c[0], framing, code, text)
				}
				if code != http.StatusForbidden {
					t.Errorf("%s at the %s as %s, %s: %d %s", row, place, c[0], framing, code, text)
				}
			}
		}
	}
}

// A caller may send a body if it has the right that the call needs: in the namespace of the query,
// or of the body if the query names none.
func TestBodiesOfCallersAreRead(t *testing.T) {
	h := open(t)
	h.policy("submits", `namespace "mine" { capabilities = ["register-job"] }
namespace "prod" { policy = "deny" }`, "")
	h.policy("writes-vars", `namespace "mine" { variables { path "a/*" { capabilities = ["write"] } } }`, "")
	h.policy("pools", `node_pool "gpu*" { policy = "write" }`, "")
	const job = `{"Job": {"ID": "new", "Name": "new", "Type": "batch", "Datacenters": ["none"], "Namespace": %q, "TaskGroups": [{"Name": "g", "Count": 1,
		"Tasks": [{"Name": "t", "Driver": "exec2", "Config": {"command": "/bin/true"}}]}]}}`
	for place, a := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
		for name, c := range map[string]struct {
			policy, path, body string
			code               int
		}{
			"namespace in the body":           {"submits", "/v1/jobs", fmt.Sprintf(job, local), 200},
			"namespace in the query":          {"submits", "/v1/jobs?namespace=mine", fmt.Sprintf(job, prod), 200},
			"other namespace in the body":     {"submits", "/v1/jobs", fmt.Sprintf(job, prod), 403},
			"other namespace in the query":    {"submits", "/v1/jobs?namespace=prod", fmt.Sprintf(job, local), 403},
			"all namespaces in the query":     {"submits", "/v1/jobs?namespace=*", fmt.Sprintf(job, local), 403},
			"variable, namespace in the body": {"writes-vars", "/v1/var/a/b", `{"Namespace": "mine", "Path": "a/b", "Items": {"k": "v"}}`, 200},
			"other variable":                  {"writes-vars", "/v1/var/b", `{"Namespace": "mine", "Path": "b", "Items": {"k": "v"}}`, 403},
			"own node pool":                   {"pools", "/v1/node/pools", `{"Name": "gpu-1"}`, 200},
			"other node pool":                 {"pools", "/v1/node/pools", `{"Name": "cpu"}`, 403},
		} {
			if code, text := h.putAs(a, c.policy, c.path, c.body); code != c.code {
				t.Errorf("%s at the %s: %d %s, want %d", name, place, code, text, c.code)
			}
		}
	}
}

// A request to explain an authorization is answered without its body if the caller cannot have the
// required right.
func TestExplainedBodiesWithoutRightsAreNotRead(t *testing.T) {
	h := open(t)
	h.policy("reads", `namespace "mine" { policy = "read" }`, "")
	h.policy("submits", `namespace "mine" { capabilities = ["submit-job"] }`, "")
	const question = `{"Request": {"Method": "PUT", "Path": "/v1/jobs", "Body": {"Job": {"ID": 7}}}}`
	for place, a := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
		for policy, want := range map[string]struct {
			code int
			text string
		}{"reads": {200, `"Allowed":false`}, "submits": {400, "ID"}} {
			if code, text := h.putAs(a, policy, "/v1/acl/explain", question); code != want.code || !strings.Contains(text, want.text) {
				t.Errorf("%s at the %s: %d %s, want %d with %s", policy, place, code, text, want.code, want.text)
			}
		}
	}
}

// putAs sends a body with a token that has one policy.
func (h *house) putAs(a *cluster.Agent, policy, path, body string) (int, string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPut, a.Address()+path, strings.NewReader(body))
	h.must(err)
	req.Header.Set("X-Nomad-Token", h.token(&api.ACLToken{Policies: []string{policy}}))
	resp, err := h.web(h.userFiles).Do(req)
	h.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	h.must(err)
	return resp.StatusCode, string(text)
}

// bodyLimit is shorter than the agent waits for a body.
const bodyLimit = 25 * time.Second

// announce sends the headers of a request whose body never comes.
func (h *house) announce(a *cluster.Agent, method, path, token, headers string) (int, string) {
	h.t.Helper()
	u, err := url.Parse(a.Address())
	h.must(err)
	config := h.web(h.userFiles).Transport.(*http.Transport).TLSClientConfig
	conn, err := tls.Dial("tcp", u.Host, config)
	h.must(err)
	defer conn.Close()
	h.must(conn.SetDeadline(time.Now().Add(bodyLimit)))
	if token != "" {
		headers = "X-Nomad-Token: " + token + "\r\n" + headers
	}
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", method, path, u.Host, headers)
	h.must(err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return http.StatusRequestTimeout, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return resp.StatusCode, string(text)
}
