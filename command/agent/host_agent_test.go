package agent_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// Without ACLs an agent serves requests for its own names only. A page whose name resolves to its
// address is rejected, also for exec over a websocket.
func TestForeignHostNames(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	config := write(t, free+"name = \"node-7\"\nhttp_api_allowed_hosts = [\"proxy.example.com\"]\nadvertise {\n"+
		" http = \"api.example.net\"\n}\n")
	a, _ := run(t, append(serverOnly(t, config), "-bind", "localhost")...)
	_, port, _ := strings.Cut(a.Addr(), ":")
	exec := "/v1/client/allocation/8ba85cef-22b5-4e1d-9d8c-000000000001/exec?task=t&command=%5B%22true%22%5D"
	for host, refused := range map[string]bool{
		"evil.example:" + port: true, "127.0.0.1.evil.example": true, machine + ".evil.example": true,
		"127.0.0.1:" + port: false, "localhost:" + port: false, machine + ":" + port: false, "node-7": false, "proxy.example.com": false,
		"api.example.net:" + port: false,
	} {
		for method, path := range map[string]string{"GET": "/v1/status/peers", "PUT": "/v1/jobs", "": exec} {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:"+port+path, strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			req.Header.Set("Origin", "http://"+host)
			if path == exec {
				for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
					"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
					req.Header.Set(k, v)
				}
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.StatusCode == http.StatusForbidden; got != refused {
				t.Errorf("%s %s at host %s: %d, want refused %t", method, path, host, resp.StatusCode, refused)
			}
		}
	}
}
