package namespace

import (
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestSpecification(t *testing.T) {
	for name, text := range map[string]string{
		"HCL": `
			name        = "team"
			description = "of a team"
			capabilities {
				enabled_task_drivers = ["exec2"]
			}
			quota = "small"
			node_pool_config {
				default = "gpu"
				allowed = []
			}
			meta {
				owner = "blue"
			}
			required_extra_claims {
				unit = "${job.namespace}-${group.name}"
			}
			optional_extra_claims {
				rack = "${node.id}"
			}
			privileged = "explicit"
			isolation {
				minimum = "baseline"
				enforce = true
				warn    = "restricted"
				claim   = true
			}`,
		"JSON": `{"name": "team", "description": "of a team", "capabilities": {"enabled_task_drivers": ["exec2"]}, "quota": "small",
			"node_pool_config": {"default": "gpu", "allowed": []}, "meta": {"owner": "blue"},
			"required_extra_claims": {"unit": "${job.namespace}-${group.name}"}, "optional_extra_claims": {"rack": "${node.id}"},
			"privileged": "explicit", "isolation": {"minimum": "baseline", "enforce": true, "warn": "restricted", "claim": true}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			want := &api.Namespace{Name: "team", Description: "of a team", Quota: "small", Privileged: "explicit",
				NodePoolConfiguration: &api.NamespaceNodePoolConfiguration{Default: "gpu", Allowed: []string{}},
				Capabilities:          &api.NamespaceCapabilities{EnabledTaskDrivers: []string{"exec2"}},
				Meta:                  map[string]string{"owner": "blue"},
				RequiredExtraClaims:   map[string]string{"unit": "${job.namespace}-${group.name}"},
				OptionalExtraClaims:   map[string]string{"rack": "${node.id}"},
				Isolation:             &api.NamespaceIsolation{Minimum: "baseline", Enforce: true, Warn: "restricted", Claim: true}}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("parse() = %+v, want %+v", got, want)
			}
		})
	}
}

func TestBadSpecification(t *testing.T) {
	for text, want := range map[string]string{
		``:                                       "no name",
		`name = [`:                               "Error parsing",
		`name = 5`:                               "name: expected a string",
		`name = "a" colour = "blue"`:             "unknown key colour",
		`name = "a" capabilities { x = 1 }`:      "unknown key capabilities.x",
		`name = "a" isolation { x = 1 }`:         "unknown key isolation.x",
		`name = "a" isolation { enforce = "x" }`: "enforce: expected true or false",
		`name = "a" capabilities { enabled_task_drivers = "x" }`: "expected a list of strings",
		`name = "a" meta { a = "1" } meta { b = "2" }`:           "meta: expected one block",
		`name = "a" vault { default = "x" }`:                     "vault: not part of this version",
		`name = "a" node_pool_config { pools = "x" }`:            "unknown key node_pool_config.pools",
	} {
		text = strings.NewReplacer(`" `, "\"\n", `} `, "}\n").Replace(text)
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse(%q) = %v, want %q", text, err, want)
		}
	}
}
