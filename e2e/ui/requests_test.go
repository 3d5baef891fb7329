package ui

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// m is a JSON object.
type m = map[string]any

// call makes a request to the API with the management token, and decodes the reply into out unless it
// is nil.
func (h *house) call(t testing.TB, method, path string, body, out any) {
	t.Helper()
	h.send(t, management, method, path, body, out)
}

// callAs is call with another token, without a body.
func (h *house) callAs(t testing.TB, token, method, path string, out any) {
	t.Helper()
	h.send(t, token, method, path, nil, out)
}

func (h *house) send(t testing.TB, token, method, path string, body, out any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, h.agent.Address()+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s: %s (%v)", method, path, resp.Status, reply, err)
	}
	if out != nil {
		if err := json.Unmarshal(reply, out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, reply)
		}
	}
}

// job reads a job of the namespace default.
func (h *house) job(t testing.TB, id string) (out struct {
	Stop       bool
	Version    int
	TaskGroups []struct{ Count int }
}) {
	t.Helper()
	h.call(t, "GET", jobAPI(id), nil, &out)
	return out
}
