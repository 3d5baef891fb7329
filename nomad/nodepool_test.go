package nomad_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestNodePoolFromJSON(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`{"Name":"a"}`: 0, `{"Name":"a","NodeIdentityTTL":""}`: 0, `{"Name":"a","NodeIdentityTTL":null}`: 0,
		`{"Name":"a","NodeIdentityTTL":"90m"}`: 90 * time.Minute, `{"Name":"a","NodeIdentityTTL":60000000000}`: time.Minute,
	} {
		var p nomad.NodePool
		if err := json.Unmarshal([]byte(text), &p); err != nil || p.Name != "a" || p.NodeIdentityTTL != want {
			t.Errorf("%s is %+v, %v", text, p, err)
		}
	}
	for _, bad := range []string{`{"NodeIdentityTTL":"soon"}`, `{"NodeIdentityTTL":true}`, `{"NodeIdentityTTL":1.5}`, `{"Name":1}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &nomad.NodePool{}); err == nil {
			t.Errorf("%s is a node pool", bad)
		}
	}
}
