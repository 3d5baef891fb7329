package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/audit"
)

func TestAuditConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want *audit.Config
	}{
		"off": {`audit { sink "s" { path = "/x" } }`, nil},
		"plain": {`audit { enabled = true }`,
			&audit.Config{Path: "/var/nomad/audit/audit.log", OwnDir: true, Mode: 0o600, Enforced: true, RotateEvery: 24 * time.Hour}},
		"whole": {`audit {
			enabled = true
			sink "s" {
				type = "file"
				format = "json"
				delivery_guarantee = "best-effort"
				path = "/var/log/nomad//audit.json"
				rotate_duration = "1h"
				rotate_bytes = 17
				rotate_max_files = 3
				mode = "0640"
			}
			filter "b" {
				type = "RPCEvent"
				endpoints = ["Node.*"]
			}
			filter "a" {
				type = "HTTPEvent"
				endpoints = ["/v1/metrics"]
				stages = ["OperationReceived"]
				operations = ["GET"]
			}
		}`, &audit.Config{
			Path:        "/var/log/nomad/audit.json",
			Mode:        0o640,
			RotateEvery: time.Hour,
			RotateBytes: 17,
			Keep:        3,
			Filters: []audit.Filter{
				{Type: "HTTPEvent", Endpoints: []string{"/v1/metrics"}, Stages: []string{"OperationReceived"}, Operations: []string{"GET"}},
				{Type: "RPCEvent", Endpoints: []string{"Node.*"}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := load(t, map[string]string{"a.hcl": minimal + tt.text})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.AuditConfig("/var/nomad"); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("auditConfig() = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAuditRefused(t *testing.T) {
	for text, want := range map[string]string{
		`audit { sink "s" { type = "syslog" } }`: "audit.sink.s.type: unknown type",
		`audit { sink "s" { format = "text" } }`: "audit.sink.s.format: unknown format",
		`audit { sink "s" { delivery_guarantee = "best_effort" } }`: "audit.sink.s.delivery_guarantee: " +
			"must be enforced or best-effort",
		`audit { sink "s" { path = "audit.log" } }`:      "audit.sink.s.path: must be an absolute path",
		`audit { sink "s" { path = "/var/log/" } }`:      "audit.sink.s.path: must be an absolute path of a file",
		`audit { sink "s" { rotate_bytes = -1 } }`:       "audit.sink.s.rotate_bytes: must not be negative",
		`audit { sink "s" { rotate_duration = "-1h" } }`: "audit.sink.s.rotate_duration: must not be negative",
		`audit { sink "s" { rotate_max_files = -1 } }`:   "audit.sink.s.rotate_max_files: must not be negative",
		`audit { sink "s" { mode = "0660" } }`:           "audit.sink.s.mode: must be 0600, 0640 or 0644",
		`audit { sink "s" { mode = "0606" } }`:           "audit.sink.s.mode",
		`audit { sink "s" { mode = "0400" } }`:           "audit.sink.s.mode",
		`audit { sink "s" { mode = "rw" } }`:             "audit.sink.s.mode",
		`audit { sink "s" { colour = "red" } }`:          `unknown key "colour"`,
		`audit { sink "s" {} sink "t" {} }`:              "audit.sink: at most one sink is allowed, got 2",
		`audit { filter "f" { endpoints = ["*"] } }`: "audit.filter.f: type: must be " +
			"HTTPEvent or RPCEvent or IdentityEvent",
		`audit { filter "f" { type = "HTTPEvent" } }`: "audit.filter.f: without endpoints",
		`audit { filter "f" { type = "HTTPEvent" stages = ["OperationX"] } }`: "audit.filter.f: stages: must be " +
			"OperationReceived or OperationComplete or *",
		`audit { filter "f" { type = "HTTPEvents" endpoints = ["/v1/jobs"] } }`: "audit.filter.f: type",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := load(t, map[string]string{"a.hcl": minimal + text})
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a.hcl:4") {
				t.Errorf("Parse() = %v, want %q and the place", err, want)
			}
		})
	}
}
