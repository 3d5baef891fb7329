package security_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// recorded is a completed operation of the audit log.
type recorded struct {
	operation, endpoint, remote string
	status                      int
}

// recordedEnds returns the completed operations in the audit log, with remote addresses without
// ports.
func recordedEnds(t *testing.T, data string) map[recorded]bool {
	t.Helper()
	out := map[recorded]bool{}
	for line := range strings.Lines(harness.Content(t, filepath.Join(data, "audit", "audit.log"))) {
		var e struct {
			Payload struct {
				Stage   string
				Request struct {
					Operation, Endpoint string
					Meta                struct {
						Address string `json:"remote_address"`
					} `json:"request_meta"`
				}
				Response struct {
					Status int `json:"status_code"`
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		r := e.Payload.Request
		host, _, _ := strings.Cut(r.Meta.Address, ":")
		out[recorded{r.Operation, r.Endpoint, host, e.Payload.Response.Status}] = e.Payload.Stage == "OperationComplete"
	}
	return out
}

// Every rejection is in the audit log, on the HTTP port and on the sockets of tasks.
func TestRejectionsAreAudited(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	h := harness.Hold(t, a, data, "holder")
	tcp, socket := a.Address(), "http://x"
	for _, c := range []struct {
		base, token, method, path string
		header                    [2]string
		status                    int
	}{
		{socket, "", "GET", "/v1/jobs", [2]string{}, http.StatusUnauthorized},
		{socket, "", "GET", "/v1/nothing", [2]string{}, http.StatusUnauthorized},
		{socket, "", "GET", "/v1/agent/health", [2]string{"Authorization", "Basic eDp5"}, http.StatusUnauthorized},
		{socket, "bad", "GET", "/v1/agent/self", [2]string{}, http.StatusForbidden},
		{socket, h.Token, "GET", "/v1/nothing/here", [2]string{}, http.StatusNotFound},
		{socket, h.Token, "PATCH", "/v1/jobs", [2]string{}, http.StatusMethodNotAllowed},
		{tcp, "", "GET", "/v1/nothing", [2]string{}, http.StatusNotFound},
		{tcp, "", "PATCH", "/v1/jobs", [2]string{}, http.StatusMethodNotAllowed},
		{tcp, "", "GET", "/v1/jobs?index=x", [2]string{}, http.StatusBadRequest},
		{tcp, "bad", "GET", "/v1/nodes", [2]string{}, http.StatusForbidden},
		{tcp, "", "PUT", "/v1/jobs", [2]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{tcp, "", "POST", "/v1/jobs", [2]string{}, http.StatusRequestEntityTooLarge},
	} {
		client, remote := &http.Client{}, "127.0.0.1"
		if c.base == socket {
			client, remote = harness.SocketClient(t, h), "unix"
		}
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.base+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Nomad-Token", c.token)
		if c.status == http.StatusRequestEntityTooLarge {
			req.ContentLength, req.Body = 33<<20, io.NopCloser(strings.NewReader(strings.Repeat("x", 33<<20)))
		}
		if c.header[0] != "" {
			req.Header.Set(c.header[0], c.header[1])
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("%s %s%s: %d, want %d", c.method, c.base, c.path, resp.StatusCode, c.status)
			}
		} // the server closes a connection with an unread body
		path, _, _ := strings.Cut(c.path, "?")
		harness.Within(t, harness.Patience, "a line of "+c.method+" "+c.path, func() bool {
			return recordedEnds(t, data)[recorded{c.method, path, remote, c.status}]
		})
	}
	for range 33 {
		defer harness.DialSocket(t, h).Close()
	}
	harness.Within(t, harness.Patience, "a line of a connection over the limit", func() bool {
		return recordedEnds(t, data)[recorded{"connect", "", "unix", http.StatusTooManyRequests}]
	})
}
