package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func TestNodePoolJSON(t *testing.T) {
	for in, want := range map[string]time.Duration{
		`{"Name": "p", "NodeIdentityTTL": "1h"}`:          time.Hour,
		`{"Name": "p", "NodeIdentityTTL": 3600000000000}`: time.Hour,
		`{"Name": "p"}`: 0,
	} {
		var p api.NodePool
		if err := json.Unmarshal([]byte(in), &p); err != nil || p.NodeIdentityTTL != want || p.Name != "p" {
			t.Errorf("%s: %+v, %v", in, p, err)
		}
	}
	b, err := json.Marshal(&api.NodePool{NodeIdentityTTL: time.Hour})
	if err != nil || !strings.Contains(string(b), `"NodeIdentityTTL":"1h0m0s"`) {
		t.Errorf("Marshal = %s, %v", b, err)
	}
}
