package node

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func TestParsePool(t *testing.T) {
	example := &api.NodePool{Name: "example", Description: "Example node pool", NodeIdentityTTL: 24 * time.Hour,
		Meta: map[string]string{"environment": "prod", "owner": "sre"}}
	for name, c := range map[string]struct {
		text    string
		json    bool
		want    *api.NodePool
		wantErr string // a part of the error
	}{
		"example":         {text: examplePool, want: example},
		"example in JSON": {text: examplePoolJSON, json: true, want: example},
		"only a name":     {text: `node_pool "a" {}`, want: &api.NodePool{Name: "a"}},
		"meta as a map":   {text: `node_pool "a" { meta = { k = "v" } }`, want: &api.NodePool{Name: "a", Meta: map[string]string{"k": "v"}}},
		"nanoseconds": {text: `{"Name":"a","NodeIdentityTTL":3600000000000}`, json: true,
			want: &api.NodePool{Name: "a", NodeIdentityTTL: time.Hour}},
		"bad TTL":      {text: `node_pool "a" { node_identity_ttl = "soon" }`, wantErr: "node_identity_ttl"},
		"zero TTL":     {text: `node_pool "a" { node_identity_ttl = "0s" }`, wantErr: "node_identity_ttl"},
		"negative TTL": {text: `node_pool "a" { node_identity_ttl = "-1h" }`, wantErr: "node_identity_ttl"},
		"scheduler": {text: "node_pool \"a\" {\n scheduler_config {\n scheduler_algorithm = \"spread\"\n" +
			" memory_oversubscription_enabled = false\n }\n}",
			want: &api.NodePool{Name: "a",
				SchedulerConfiguration: &api.NodePoolSchedulerConfiguration{SchedulerAlgorithm: "spread", MemoryOversubscriptionEnabled: new(bool)}}},
		"unknown scheduler key": {text: "node_pool \"a\" {\n scheduler_config {\n colour = \"red\"\n }\n}", wantErr: "colour"},
		"two schedulers":        {text: "node_pool \"a\" {\n scheduler_config {}\n scheduler_config {}\n}", wantErr: "2 scheduler_config blocks"},
		"unknown key":           {text: `node_pool "a" { colour = "red" }`, wantErr: "colour"},
		"two pools":             {text: "node_pool \"a\" {}\nnode_pool \"b\" {}", wantErr: "2 node_pool blocks"},
		"none":                  {text: "", wantErr: "0 node_pool blocks"},
		"invalid HCL":           {text: `node_pool "a" {`, wantErr: "pool.hcl:1"},
		"invalid JSON":          {text: `node_pool "a" {}`, json: true, wantErr: "pool.hcl"},
		"JSON without name":     {text: `{}`, json: true, wantErr: "no Name"},
		"unknown JSON":          {text: `{"Name":"a","node_identity_ttl":"1h"}`, json: true, wantErr: "node_identity_ttl"},
	} {
		got, err := parsePool("pool.hcl", []byte(c.text), c.json)
		if c.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%s: %v, want an error about %q", name, err, c.wantErr)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}
