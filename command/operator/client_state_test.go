package operator

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// The output has neither tokens, wherever they are stored, nor the environment from hooks, nor the
// state of drivers.
func TestClientStateWithoutSecrets(t *testing.T) {
	const jwt = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
	text, err := shownState(&state.Contents{Node: idtoken.New(jwt, ""), Allocs: map[string]state.AllocContents{"a": {
		Alloc: &nomad.Allocation{ID: "a", SignedIdentities: map[string]string{"t": "secret-1"}, ClientDescription: "failed with " + jwt +
			"!"},
		Identities: []*message.SignedWorkloadIdentity{{JWT: jwt}, {JWT: "secret-2"}},
		Tasks: map[string]state.Task{"t": {Local: &state.LocalState{
			Hooks: map[string]*state.HookState{"identity": {Env: map[string]string{"TOKEN": "secret-3"},
				Data: map[string]string{"d": "secret-4"}}, "none": nil},
			TaskHandle: &drivers.TaskHandle{Driver: "exec2", State: []byte("secret-5")},
		}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"eyJ", "secret-", "c2VjcmV0"} {
		if strings.Contains(text, secret) {
			t.Errorf("the output contains %q: %s", secret, text)
		}
	}
	for _, want := range []string{`"NodeIdentity":{"sub":"a"}`, `"Claims":{"sub":"a"}`, `"TOKEN":"<redacted>"`,
		`"DriverState":{"Driver":"exec2","Bytes":8}`, `failed with <redacted>!`} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %s: %s", want, text)
		}
	}
}
