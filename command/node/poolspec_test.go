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
		text string
		json bool
		want *api.NodePool
		says string // a part of the error
	}{
		"example":         {text: examplePool, want: example},
		"example in JSON": {text: examplePoolJSON, json: true, want: example},
		"only a name":     {text: `node_pool "a" {}`, want: &api.NodePool{Name: "a"}},
		"meta as a map":   {text: `node_pool "a" { meta = { k = "v" } }`, want: &api.NodePool{Name: "a", Meta: map[string]string{"k": "v"}}},
		"nanoseconds":     {text: `{"Name":"a","NodeIdentityTTL":3600000000000}`, json: true, want: &api.NodePool{Name: "a", NodeIdentityTTL: time.Hour}},
		"bad TTL":         {text: `node_pool "a" { node_identity_ttl = "soon" }`, says: "node_identity_ttl"},
		"zero TTL":        {text: `node_pool "a" { node_identity_ttl = "0s" }`, says: "node_identity_ttl"},
		"negative TTL":    {text: `node_pool "a" { node_identity_ttl = "-1h" }`, says: "node_identity_ttl"},
		"scheduler": {text: "node_pool \"a\" {\n scheduler_config {\n scheduler_algorithm = \"spread\"\n memory_oversubscription_enabled = false\n }\n}",
			want: &api.NodePool{Name: "a", SchedulerConfiguration: &api.NodePoolSchedulerConfiguration{SchedulerAlgorithm: "spread", MemoryOversubscriptionEnabled: new(bool)}}},
		"unknown scheduler key": {text: "node_pool \"a\" {\n scheduler_config {\n colour = \"red\"\n }\n}", says: "colour"},
		"two schedulers":        {text: "node_pool \"a\" {\n scheduler_config {}\n scheduler_config {}\n}", says: "2 scheduler_config blocks"},
		"unknown key":           {text: `node_pool "a" { colour = "red" }`, says: "colour"},
		"two pools":             {text: "node_pool \"a\" {}\nnode_pool \"b\" {}", says: "2 node_pool blocks"},
		"none":                  {text: "", says: "0 node_pool blocks"},
		"invalid HCL":           {text: `node_pool "a" {`, says: "pool.hcl:1"},
		"invalid JSON":          {text: `node_pool "a" {}`, json: true, says: "pool.hcl"},
		"JSON without name":     {text: `{}`, json: true, says: "no Name"},
		"unknown JSON":          {text: `{"Name":"a","node_identity_ttl":"1h"}`, json: true, says: "node_identity_ttl"},
	} {
		got, err := parsePool("pool.hcl", []byte(c.text), c.json)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want an error about %q", name, err, c.says)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}
