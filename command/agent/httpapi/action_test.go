package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// The request of an action has its name and no command. The parameters command and group are ignored.
func TestActionSession(t *testing.T) {
	got := make(chan message.AllocExecRequest, 1)
	_, web := execServer(t, func(req *message.AllocExecRequest, st *rpc.Stream) error {
		got <- *req
		return sendPayload(st, `{"exited":true,"result":{"exit_code":3}}`)
	})
	const alloc = "8ba85cef-22b5-4e1d-9d8c-000000000001"
	url := web.URL + "/v1/job/web%2Fa/action?namespace=ns&allocID=" + alloc +
		"&task=main&group=other&action=flush&tty=true&command=%5B%22rm%22%5D"
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: http.Header{"X-Nomad-Token": {"secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if text, _ := receive(t, ws); text != `{"exited":true,"result":{"exit_code":3}}` {
		t.Errorf("first message %q", text)
	}
	req := <-got
	if req.JobID != "web/a" || req.AllocID != alloc || req.Task != "main" || req.Action != "flush" || !req.Tty || req.Cmd != nil ||
		req.Namespace != "ns" || req.AuthToken != "secret" {
		text, _ := json.Marshal(req)
		t.Errorf("request %s", text)
	}
}

func TestBadActionRequests(t *testing.T) {
	s := newTestServer(t, 0)
	for query, want := range map[string]string{
		"":                               "400 Must provide an allocation",
		"?allocID=a":                     "400 Must provide a task",
		"?allocID=a&task=b":              "400 Must provide an action",
		"?allocID=a&task=b&action=c":     "500 requires a websocket",
		"?allocID=a&task=b&tty=x":        "400 tty",
		"?ws_handshake=x&allocID=a":      "400 ws_handshake",
		"?allocID=a&task=b&index=banana": "400 Invalid index",
	} {
		code, text, _ := strings.Cut(want, " ")
		w := do(s, "GET", "/v1/job/x/action"+query, "")
		if got := http.StatusText(w.Code); !strings.HasPrefix(code, "4") && w.Code != 500 || strings.HasPrefix(code, "4") && w.Code != 400 ||
			!strings.Contains(w.Body.String(), text) {
			t.Errorf("%q: %d %s %s, want %s", query, w.Code, got, w.Body, want)
		}
	}
}
