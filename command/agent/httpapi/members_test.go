package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// ring returns the keys of one server.
type ring map[string]int

func (r ring) reply() (*message.KeyringResponse, error) {
	return &message.KeyringResponse{Keys: r, NumNodes: 1, Messages: map[string]string{}}, nil
}

func (r ring) ListGossipKeys() (*message.KeyringResponse, error) { return r.reply() }
func (r ring) InstallGossipKey(key string) (*message.KeyringResponse, error) {
	r[key] = 1
	return r.reply()
}
func (r ring) UseGossipKey(key string) (*message.KeyringResponse, error) {
	if r[key] == 0 {
		return nil, apierror.Errorf(http.StatusBadRequest, "install it first")
	}
	return r.reply()
}
func (r ring) RemoveGossipKey(key string) (*message.KeyringResponse, error) {
	delete(r, key)
	return r.reply()
}

func TestGossipKeysAreForOperators(t *testing.T) {
	s := newTestServer(t, 1<<10)
	if w := do(s, "GET", "/v1/agent/keyring/list", ""); w.Code != http.StatusNotImplemented {
		t.Errorf("an agent that is not a server answers %d", w.Code)
	}
	keys := ring{"hidden": 1}
	s = changed(s, func(c *Config) { c.Keys = keys })
	for _, c := range []struct {
		method, path, body, token string
		status                    int
		want                      string
	}{
		{"GET", "list", "", "", 200, `"Keys":{"hidden":1}`},
		{"PUT", "use", `{"Key":"next"}`, "", 400, "install it first"},
		{"PUT", "install", `{"Key":"next"}`, "", 200, `"next":1`},
		{"POST", "remove", `{"Key":"next"}`, "", 200, `"NumNodes":1`},
		{"PUT", "install", "", "", 400, "empty"},
		{"GET", "install", "", "", 405, ""},
		{"GET", "list", "", "mine", 403, ""},
		{"GET", "list", "", "bad", 403, ""},
		{"PUT", "install", `{"Key":"evil"}`, "mine", 403, ""},
		{"PUT", "remove", `{"Key":"hidden"}`, "mine", 403, ""},
	} {
		w := do(s, c.method, "/v1/agent/keyring/"+c.path, c.body, "X-Nomad-Token", c.token)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || c.status == 403 && strings.Contains(w.Body.String(), "hidden") {
			t.Errorf("%s %s %s with token %q = %d %s, want %d", c.method, c.path, c.body, c.token, w.Code, w.Body, c.status)
		}
	}
	if len(keys) != 1 || keys["hidden"] != 1 {
		t.Error("a task changed the keys")
	}
}
