package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// sessionPaths lists every kind of session, with its right.
var sessionPaths = map[string]string{
	"exec":         execPath + "?task=web&command=" + url.QueryEscape(`["a"]`),
	"action":       "/v1/job/j/action?task=web&action=a&allocID=8ba85cef-22b5-4e1d-9d8c-000000000001",
	"port-forward": strings.TrimSuffix(execPath, "exec") + "port-forward?port=http",
}

// Callers without a token have a small limit of their own: they do not use up the sessions, and do not keep out callers
// with a token, whether it is in a header or in the handshake.
func TestUnauthenticatedSessions(t *testing.T) {
	for name, path := range sessionPaths {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{}, 2)
			s := newTestServer(t, 0)
			s = changed(s, func(c *Config) {
				c.ACL, c.Callers = true, policies{text: map[string]string{"mine": `namespace "default" { capabilities = ["alloc-exec", "alloc-port-forward"] }`}}
				c.RPC = execNode{RPC: c.RPC, any: true, serve: func(_ *message.AllocExecRequest, st *rpc.Stream) error {
					started <- struct{}{}
					return sendPayload(st, `{"stdout":{"data":"aGk="}}`)
				}}
			})
			agent := httptest.NewServer(web.Compress(s))
			defer agent.Close()
			open := func(more string, h http.Header) *websocket.Conn {
				ws, _, err := websocket.Dial(t.Context(), agent.URL+path+more, &websocket.DialOptions{HTTPHeader: h})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { ws.CloseNow() })
				return ws
			}
			for range 2 * maxUnauthenticated {
				open("&ws_handshake=true", nil) // the token never comes
			}
			if execs, forwards := s.execs.Load(), s.forwards.Load(); execs != 0 || forwards != 0 {
				t.Errorf("%d exec sessions and %d forwarded connections of unauthenticated callers", execs, forwards)
			}
			ws := open("", nil) // without the right
			if text, end := receive(t, ws); text != "" || end.Code != websocket.StatusPolicyViolation ||
				!strings.Contains(end.Reason, "Permission denied") {
				t.Errorf("without a token: %q, %v", text, end)
			}
			ws = open("", http.Header{"X-Nomad-Token": {"mine"}})
			if text, _ := receive(t, ws); !strings.Contains(text, "aGk=") {
				t.Errorf("with a token in a header: %q", text)
			}
			<-started
			ws.CloseNow()
			ws = open("&ws_handshake=true", nil)
			sendText(t, ws, `{"version":1,"auth_token":"mine"}`)
			if text, _ := receive(t, ws); !strings.Contains(text, "aGk=") {
				t.Errorf("with a token in the handshake: %q", text)
			}
			<-started
			ws.CloseNow()
			s.pending.mu.Lock()
			if n := len(s.pending.list); n > maxUnauthenticated {
				t.Errorf("%d unauthenticated sessions, at most %d are allowed", n, maxUnauthenticated)
			}
			s.pending.mu.Unlock()
			testpace.Until(t, "the end of the authenticated sessions", func() bool { return s.execs.Load() == 0 && s.forwards.Load() == 0 })
		})
	}
}
