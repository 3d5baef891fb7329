package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The files below use the forms that operators use: HCL 1 or JSON, with every form of maps,
// blocks and values.

func TestServerFile(t *testing.T) {
	s, err := load(t, map[string]string{"server.hcl": `
		# a server of the first rack
		name       = "srv-1"
		region     = "eu"
		datacenter = "fra1"
		data_dir   = "/opt/nomad/data"
		log_level  = "WARN" // quieter
		log_json   = "true"

		ports { http = 5646 rpc = "5647" serf = 5648 }
		addresses = { http = "127.0.0.1 10.0.0.5" }
		advertise {
			http = "10.0.0.5"
			rpc  = "10.0.0.5:5647"
			serf = "10.0.0.5"
		}
		server {
			enabled          = true
			bootstrap_expect = 1
			server_join { retry_join = ["127.0.0.1:4648", "srv-1"] }
			raft_multiplier  = "5"
			heartbeat_grace  = "30s"
			max_heartbeats_per_second = "12.5"
			enabled_schedulers = ["service", "batch"]
			job_gc_threshold = "12h"
			default_scheduler_config {
				scheduler_algorithm = "spread"
				preemption_config { batch_scheduler_enabled = true }
			}
		}
		http_api_response_headers {
			"Access-Control-Allow-Origin" = "*"
			"X-Rack" = "r1"
		}
		telemetry = { prometheus_metrics = 1, collection_interval = "10s" }
	`})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ got, want any }{
		{s.Name, "srv-1"}, {s.Region, "eu"}, {s.LogJSON, true}, {s.Ports, Ports{5646, 5647, 5648}},
		{s.Addresses.HTTP, "127.0.0.1 10.0.0.5"}, {s.Advertise, Advertise{"10.0.0.5", "10.0.0.5:5647", "10.0.0.5"}},
		{s.Server.RaftMultiplier, 5}, {s.Server.HeartbeatGrace, 30 * time.Second}, {s.Server.MaxHeartbeatsPerSecond, 12.5},
		{s.Server.EnabledSchedulers, []string{"service", "batch"}}, {s.Server.JobGCThreshold, 12 * time.Hour},
		{s.Server.DefaultSchedulerConfig.SchedulerAlgorithm, "spread"},
		{s.Server.DefaultSchedulerConfig.PreemptionConfig, PreemptionConfig{SystemSchedulerEnabled: true, BatchSchedulerEnabled: true}},
		{s.HTTPAPIResponseHeaders, map[string]string{"Access-Control-Allow-Origin": "*", "X-Rack": "r1"}},
		{s.Telemetry.PrometheusMetrics, true},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("got %#v, want %#v", v.got, v.want)
		}
	}
}

func TestClientFile(t *testing.T) {
	s, err := load(t, map[string]string{"client.hcl": `
		data_dir = "/opt/nomad/data"
		client {
			enabled = "true"
			node_class = "big"
			servers = ["10.0.0.1", "10.0.0.2:5647"]
			server_join {
				retry_join     = ["srv.example.org"]
				retry_interval = "15s"
			}
			meta {
				"rack" = "r1"
				slots  = 4
				ssd    = true
			}
			meta = { "zone.name" = "a" }
			options {
				"driver.raw_exec.enable" = "1"
				"env.denylist" = <<EOT
SECRET
EOT
			}
			reserved { cpu = 100 memory = 256 reserved_ports = "22,80,8500-8600" }
			gc_disk_usage_threshold = 91.5
			max_kill_timeout = "1m30s"
		}
		plugin "raw_exec" {
			config { enabled = true }
		}
		plugin "exec2" {
			config {
				unveil_defaults = false
				unveil_paths    = ["r:/etc", "rx:/opt"]
				unveil_by_task  = "true"
			}
		}
	`})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ got, want any }{
		{s.Client.Enabled, true}, {s.Client.NodeClass, "big"},
		{s.serverAddrs(), []string{"10.0.0.1:4647", "10.0.0.2:5647", "srv.example.org:4647"}},
		{s.Client.Meta, map[string]string{"rack": "r1", "slots": "4", "ssd": "true", "zone.name": "a"}},
		{list(s.option("env.denylist")), []string{"SECRET"}},
		{s.Client.Reserved, Reserved{CPU: 100, Memory: 256, ReservedPorts: "22,80,8500-8600"}},
		{s.Client.GCDiskUsageThreshold, 91.5}, {s.Client.MaxKillTimeout, 90 * time.Second},
		{driverConfig(s, "raw_exec"), map[string]any{"enabled": true}},
		{driverConfig(s, "exec2"), map[string]any{"unveil_defaults": false, "unveil_paths": []any{"r:/etc", "rx:/opt"},
			"unveil_by_task": "true"}},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("got %#v, want %#v", v.got, v.want)
		}
	}
}

// In JSON a block is an object or a list of objects, at every level. The content of a file decides
// whether it is JSON.
func TestJSONFile(t *testing.T) {
	forms := map[string]string{
		"objects": `{
			"data_dir": "/opt/nomad/data",
			"server": {"enabled": true, "heartbeat_grace": "7s"},
			"client": {"enabled": true, "meta": {"rack": "r1", "n": 3}, "reserved": {"cpu": 100}, "servers": []},
			"plugin": {"raw_exec": {"config": {"enabled": true}}, "exec2": {"config": {"seccomp_profiles": {"a": "/a"}}}}
		}`,
		"lists": `
		{
			"data_dir": "/opt/nomad/data",
			"server": [{"enabled": "true"}, {"heartbeat_grace": "7s"}],
			"client": [{"enabled": true, "meta": [{"rack": "r1"}, {"n": "3"}], "reserved": [{"cpu": "100"}]}],
			"plugin": [{"raw_exec": [{"config": [{"enabled": true}]}]}, {"exec2": {"config": [{"seccomp_profiles": {"a": "/a"}}]}}]
		}`,
	}
	for name, text := range forms {
		for _, file := range []string{"agent.json", "agent.hcl"} {
			t.Run(name+" "+file, func(t *testing.T) {
				s, err := load(t, map[string]string{file: text})
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range []struct{ got, want any }{
					{s.Server.Enabled, true}, {s.Server.HeartbeatGrace, 7 * time.Second}, {s.Client.Reserved.CPU, 100},
					{s.Client.Meta, map[string]string{"rack": "r1", "n": "3"}},
					{s.Plugin["raw_exec"].Config, map[string]any{"enabled": true}},
					{s.Plugin["exec2"].Config, map[string]any{"seccomp_profiles": map[string]any{"a": "/a"}}},
				} {
					if !reflect.DeepEqual(v.got, v.want) {
						t.Errorf("got %#v, want %#v", v.got, v.want)
					}
				}
			})
		}
	}
}

// JSON may have a comma after the last element. Errors keep the positions in the file.
func TestTrailingCommas(t *testing.T) {
	s, err := load(t, map[string]string{"a.json": `{
		"data_dir": "/d", "name": "a,]\"},",
		"client": {"enabled": true, "servers": ["s", "t",], "meta": {"x": "1,}", },},
		"server": [{"enabled": true,}, ] ,
	}`})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ got, want any }{
		{s.Name, `a,]"},`}, {s.Client.Servers, []string{"s", "t"}}, {s.Client.Meta, map[string]string{"x": "1,}"}}, {s.Server.Enabled, true},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("got %#v, want %#v", v.got, v.want)
		}
	}
	for text, want := range map[string]string{
		`{"region": "a",, }`: "a.json:1,", `{,}`: "a.json:1,", `{"client": {"servers": [,]}}`: "a.json:1,",
		`{"client": {"servers": ["a",,]}}`:                        "a.json:1,",
		"{\n\"client\": {\"servers\": [\"a\",],\n\"nope\": 1,},}": `a.json:3,1: unknown key "nope" in the block client`,
	} {
		if _, err := load(t, map[string]string{"a.json": text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// client.options accepts any key with a single value. Unknown keys are listed in the log.
func TestUnknownOptions(t *testing.T) {
	for _, file := range []map[string]string{
		{"a.hcl": minimal + `client { options = { "driver.nope" = "1" docker.auth.config = "/x" "env.denylist" = "A" count = 3 "consul.address" = "x" } }`},
		{"a.json": `{"data_dir": "/d", "server": {"enabled": true}, "client": {"options": {"driver.nope": "1", "docker.auth.config": "/x", "env.denylist": "A", "count": 3, "consul.address": "x"}}}`},
	} {
		s, err := load(t, file)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.UnknownOptions(), []string{"consul.address", "count", "docker.auth.config", "driver.nope"}; !reflect.DeepEqual(got, want) {
			t.Errorf("unknownOptions() = %q, want %q", got, want)
		}
	}
}

// Later -config flags take precedence. The files of a directory are read in the order of their
// names, without hidden and other files.
func TestDirectoriesMergeInOrder(t *testing.T) {
	base, over := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(base, "10-base.hcl"):    `data_dir = "/d" region = "a" datacenter = "a" name = "a" client { enabled = true servers = ["s"] meta { x = "1" y = "1" } }`,
		filepath.Join(base, "20-rack.json"):   `{"datacenter": "b", "name": "b", "client": {"meta": {"y": "2"}}}`,
		filepath.Join(base, ".30-hidden.hcl"): `nonsense`,
		filepath.Join(base, "README"):         `nonsense`,
		filepath.Join(over, "00-last.hcl"):    `name = "c" client { servers = ["t"] meta { z = "3" } }`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Parse([]string{"-config", base, "-config=" + over})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ got, want any }{
		{s.Region, "a"}, {s.Datacenter, "b"}, {s.Name, "c"}, {s.Client.Servers, []string{"t"}},
		{s.Client.Meta, map[string]string{"x": "1", "y": "2", "z": "3"}},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("got %#v, want %#v", v.got, v.want)
		}
	}
}

// Syntax errors contain their position and a description, but no value.
func TestFaultsOfForm(t *testing.T) {
	cases := map[string]struct{ file, text, want string }{
		"no value":          {"a.hcl", "region = s3cret", `a.hcl:1,10: expected a value: a string in quotes`},
		"open string":       {"a.hcl", "region = \"s3cret", "a.hcl:1,"},
		"open block":        {"a.hcl", "client {\n  meta {\n  }\n", `missing "}"`},
		"open list":         {"a.hcl", "client {\n servers = [\"s3cret\",\n", "a.hcl:"},
		"key alone":         {"a.hcl", "region\n", `a.hcl:`},
		"block for a value": {"a.hcl", "region { x = \"s3cret\" }", "a.hcl:1,8: region: expected a string, got a block"},
		"value for a block": {"a.hcl", "client = \"s3cret\"", "a.hcl:1,1: client: expected a block, got a single value"},
		"list for a value":  {"a.hcl", "region = [\"s3cret\"]", "region: expected a string, got a list"},
		"value for a list":  {"a.hcl", "client { servers = { a = 1 } }", "client.servers: expected a list of strings"},
		"no label": {"a.hcl", "plugin {\n args = [\"s3cret\"]\n}",
			`a.hcl:2,2: plugin: expected a name in quotes before the block: plugin "name" { ... }`},
		"nested meta":  {"a.hcl", "client { meta { a { b = 1 } } }", `the value of "a" must be a string`},
		"likely meant": {"a.hcl", "sever { enabled = true }", `unknown key "sever" in an agent's configuration; did you mean "server"?`},
		"likely meant within": {"a.hcl", "client {\n  node_clas = \"x\"\n}",
			`a.hcl:2,3: unknown key "node_clas" in the block client; did you mean "node_class"?`},
		"JSON null":        {"a.json", `{"region": null}`, "region: expected a string, got null"},
		"JSON place":       {"a.json", "{\n  \"server\": {\n    \"nope\": 1\n  }\n}", "a.json:3,5: unknown key \"nope\" in the block server"},
		"JSON on one line": {"a.json", `{"server": {"encrypt": "s3cret", "nope": 1}}`, "a.json:1,34: unknown key"},
		"JSON broken":      {"a.json", "{\n  \"region\": \"s3cret\",\n  oops\n}", "a.json:3,"},
		"JSON cut off":     {"a.json", `{"region": "s3cret"`, "a.json:1,"},
		"JSON goes on":     {"a.json", `{"region": "a"} s3cret`, "a.json:1,"},
		"JSON list":        {"a.json", `["s3cret"]`, "expected an object"},
		"JSON deep":        {"a.json", strings.Repeat(`{"client":`, 100), "nested deeper"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, map[string]string{c.file: c.text})
			if err == nil {
				t.Fatal("Parse() took it")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse() = %v\nwant %q in it", err, c.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error contains a value: %v", err)
			}
		})
	}
}

// No file content causes a panic.
func FuzzParse(f *testing.F) {
	for _, text := range []string{minimal, `{"client": {"meta": {"a": "b"}}}`, "plugin \"x\" { config { a = [1, {b = 2}] } }",
		"a = <<EOT\nx\nEOT\n", "client { meta { \"a\" = \"${b(\"c\")}\" } }", "ports { http = 0x10 rpc = 99999999999999999999 }"} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, src []byte, isJSON bool) {
		name := "a.hcl"
		if isJSON {
			name = "a.json"
		}
		s := Default()
		if s.parse(src, name) == nil {
			_ = s.check() // any error will do
		}
	})
}
