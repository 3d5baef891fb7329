package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
)

// keysOf lists every key of the configuration struct, as "<block>\t<key>".
func keysOf(block reflect.Value, path string, out map[string]bool) {
	for _, f := range decode.Fields(block) {
		out[strings.TrimSuffix(path, ".")+"\t"+f.Key] = true
		switch {
		case f.Mode != "":
			keysOf(decode.NewBlock(f.Value.Type().Elem()).Elem(), path+f.Key+".", out)
		case f.Nested:
			keysOf(f.Value, path+f.Key+".", out)
		}
	}
}

// The struct has every key of the table of Nomad's keys, and no other keys except those of the table of our own.
func TestKeys_AllParsed(t *testing.T) {
	want := map[string]bool{}
	for _, r := range readAlone(t) {
		if r.block != "client.options" && !strings.HasPrefix(r.block, "plugin.") {
			want[r.block+"\t"+r.key] = true
		}
	}
	got := map[string]bool{}
	keysOf(reflect.ValueOf(Default().Config), "", got)
	for key := range want {
		if !got[key] {
			t.Errorf("%q is not known", key)
		}
	}
	for key := range got {
		if !want[key] {
			t.Errorf("%q is known, but not in the table", key)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := Default().Config
	for _, v := range []struct{ got, want any }{
		{c.Region, "global"}, {c.Datacenter, "dc1"}, {c.BindAddr, "0.0.0.0"}, {c.Ports.HTTP, 4646}, {c.Ports.RPC, 4647},
		{c.Client.MaxKillTimeout, 30 * time.Second}, {c.Client.MinDynamicPort, 20000}, {c.Client.MaxDynamicPort, 32000},
		{c.Client.GCMaxAllocs, 50}, {c.Client.GCDiskUsageThreshold, 80.0}, {c.Client.Users.DynamicUserMin, 80000},
		{c.Server.EnabledSchedulers, []string{"service", "batch", "system", "sysbatch"}}, {c.Server.HeartbeatGrace, 10 * time.Second},
		{c.Server.DefaultSchedulerConfig.PreemptionConfig.SystemSchedulerEnabled, true}, {c.Limits.HTTPMaxRequestBody, "32MiB"},
		{c.Telemetry.FilterDefault, true}, {c.ACL.Enabled, false},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("default is %v, want %v", v.got, v.want)
		}
	}
}

// load writes files to a directory, reads them in order, and then applies flags.
func load(t *testing.T, files map[string]string, args ...string) (*Settings, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Parse(append([]string{"-config", dir}, args...))
}

const minimal = `
data_dir = "/var/nomad"
server { enabled = true }
`

// Keys of later files override those of earlier files, maps are merged, and flags override all files.
func TestMerge(t *testing.T) {
	s, err := load(t, map[string]string{
		"1.hcl": minimal + `
			region = "one"
			datacenter = "one"
			name = "one"
			client {
				enabled = true
				gc_interval = "5m"
				meta {
					a = "1"
					b = "1"
				}
				options = { "env.denylist" = "X" }
				reserved {
					cpu    = 100
					memory = 200
				}
			}
			plugin "raw_exec" {
				config { enabled = true }
			}
		`,
		"2.json": `{"datacenter": "two", "name": "two", "client": {"meta": {"b": "2", "c": "3"}, "reserved": {"memory": 300}},
			"server": {"heartbeat_grace": "7s", "enabled_schedulers": ["batch"]},
			"plugin": {"exec2": {"config": {"unveil_defaults": false, "unveil_paths": ["r:/etc"]}}}}`,
		"ignored.txt": "nonsense",
	}, "-node", "flag", "-meta", "d=4", "-servers", "a:1,b", "-log-level", "warn")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ got, want any }{
		{s.Region, "one"}, {s.Datacenter, "two"}, {s.Name, "flag"}, {s.LogLevel, "warn"}, {s.Client.GCInterval, 5 * time.Minute},
		{s.Client.Meta, map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}},
		{s.Client.Reserved, Reserved{CPU: 100, Memory: 300}}, {s.Server.HeartbeatGrace, 7 * time.Second},
		{s.Server.EnabledSchedulers, []string{"batch"}}, {s.serverAddrs(), []string{"a:1", "b:4647"}},
		{s.Plugin["raw_exec"].Config, map[string]any{"enabled": true}},
		{s.Plugin["exec2"].Config, map[string]any{"unveil_defaults": false, "unveil_paths": []any{"r:/etc"}}},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("got %#v, want %#v", v.got, v.want)
		}
	}
}

// All errors are reported at once, each with its file and line and without values.
func TestFaults(t *testing.T) {
	cases := map[string]struct {
		files map[string]string
		args  []string
		want  []string
	}{
		"unknown key":        {map[string]string{"a.hcl": minimal + "nonsense = \"s3cret\"\n"}, nil, []string{"a.hcl:4,1", "nonsense"}},
		"unknown nested key": {map[string]string{"a.hcl": minimal + "client {\n  nope = 1\n}\n"}, nil, []string{"a.hcl:5,3", "nope"}},
		"unknown block":      {map[string]string{"a.hcl": minimal + "clint {\n}\n"}, nil, []string{"a.hcl:4,1", "clint"}},
		"unknown JSON key": {map[string]string{"a.json": `{"data_dir": "/x", "server": {"enabled": true, "nope": 1}}`}, nil,
			[]string{"a.json:1,", "nope"}},
		"broken HCL":     {map[string]string{"a.hcl": minimal + "client {\n"}, nil, []string{"a.hcl:5,", "}"}},
		"broken JSON":    {map[string]string{"a.json": "{\n\"data_dir\": }"}, nil, []string{"a.json:2,"}},
		"wrong type":     {map[string]string{"a.hcl": minimal + "ports { http = \"many\" }\n"}, nil, []string{"a.hcl:4,", "an integer"}},
		"wrong duration": {map[string]string{"a.hcl": minimal + "client { gc_interval = \"soon\" }\n"}, nil, []string{"a.hcl:4,", "duration"}},
		"two at once":    {map[string]string{"a.hcl": minimal + "x = 1\ny = 2\n"}, nil, []string{"a.hcl:4,1", "a.hcl:5,1"}},
		"acl": {map[string]string{"a.hcl": minimal + "acl {\n  token_ttl = \"0s\"\n}\n"}, nil,
			[]string{"a.hcl:5: acl.token_ttl: must be above 0"}},
		"acl times": {map[string]string{"a.hcl": minimal + "acl {\n  token_max_expiration_ttl = \"30s\"\n}\n"}, nil,
			[]string{"a.hcl:5: acl.token_max_expiration_ttl: must not be below"}},
		"tls": {map[string]string{"a.hcl": minimal + "tls {\n  http = true\n}\n"}, nil,
			[]string{"a.hcl:5: tls.http: cert_file and key_file are needed"}},
		"tls file": {map[string]string{"a.hcl": minimal +
			"tls {\n  rpc = true\n  cert_file = \"/c\"\n  key_file = \"/k\"\n  ca_file = \"/nowhere/ca.pem\"\n}\n"}, nil,
			[]string{"a.hcl:8: tls.ca_file: open /nowhere/ca.pem: no such file"}},
		"tls suite": {map[string]string{"a.hcl": minimal + "tls { tls_cipher_suites = \"TLS_RSA_WITH_AES_128_CBC_SHA\" }\n"}, nil,
			[]string{"a.hcl:4: tls.tls_cipher_suites", "not offered"}},
		"handshake": {map[string]string{"a.hcl": minimal + "limits { https_handshake_timeout = \"-1s\" }\n"}, nil,
			[]string{"limits.https_handshake_timeout: must not be negative"}},
		"consul name": {map[string]string{"a.hcl": minimal + "consul {\n  name = \"a.b\"\n}\n"}, nil,
			[]string{"a.hcl:5: consul.name: invalid name \"a.b\""}},
		"consul timeout": {map[string]string{"a.hcl": minimal + "consul {\n  timeout = \"0s\"\n}\n"}, nil,
			[]string{"a.hcl:5: consul.timeout: must be above 0"}},
		"consul file": {map[string]string{"a.hcl": minimal + "consul {\n  token = \"s3cret\"\n  ca_file = \"/nowhere/ca.pem\"\n}\n"}, nil,
			[]string{"consul.ca_file: ", "/nowhere/ca.pem"}},
		"vault identity": {map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n default_identity {\n ttl = \"1h\"\n}\n}\n"}, nil,
			[]string{`vault.default_identity.aud: is required: use the audience of the auth method, such as aud = ["vault.io"]`}},
		"vault identity ttl": {map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n default_identity {\n aud = [\"a\"]\n ttl = \"x\"\n}\n}\n"}, nil,
			[]string{`a.hcl:8: vault.default_identity.ttl: "x" is not a duration of at least 0`}},
		"vault auth method": {map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n jwt_auth_backend_path = \"a/../..\"\n}\n"}, nil,
			[]string{"a.hcl:6: vault.jwt_auth_backend_path: must be the path of an auth method"}},
		"vault name": {map[string]string{"a.hcl": minimal + "vault {\n name = \"a.b\"\n}\n"}, nil,
			[]string{"a.hcl:5: vault.name: invalid name \"a.b\""}},
		"vault address": {map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n address = \"vault:8200\"\n}\n"}, nil,
			[]string{"a.hcl:6: vault.address: the address of Vault must begin with http:// or https://"}},
		"vault file": {map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n ca_file = \"/nowhere/ca.pem\"\n}\n"}, nil,
			[]string{"a.hcl:6: vault.ca_file: ", "/nowhere/ca.pem"}},
		"vault pair": {map[string]string{"a.hcl": minimal + "vault {\n enabled = true\n cert_file = \"/dev/null\"\n}\n"}, nil,
			[]string{"a.hcl:6: vault.cert_file: cert_file and key_file must be set together"}},
		"host volume": {map[string]string{"a.hcl": minimal + "client {\n host_volume \"x\" {\n path = \"x\"\n}\n host_volume \"a b\" {}\n}\n"},
			nil,
			[]string{"a.hcl:6: client.host_volume.x.path: \"x\" is not an absolute path", "client.host_volume.a b: \"a b\" is not a volume name",
				"client.host_volume.a b.path: \"\""}},
		"keyring": {map[string]string{"a.hcl": minimal + "keyring \"awskms\" {\n region = \"x\"\n}\n"}, nil,
			[]string{"a.hcl:4: keyring.awskms.kms_key_id: must be set", "no keyring block is active"}},
		"keyring secret": {map[string]string{"a.hcl": minimal +
			"keyring \"transit\" {\n  active = true\n  key_name = \"k\"\n  tokn = \"s3cret\"\n  tls_skip_verify = \"s3cret\"\n}\n"}, nil,
			[]string{"a.hcl:7: keyring.transit.tokn: transit has no such key", "a.hcl:8: keyring.transit.tls_skip_verify: must be true or false"}},
		"keyring block": {map[string]string{"a.hcl": minimal + "keyring \"transit\" {\n  token = [\"s3cret\"]\n}\n"}, nil,
			[]string{"a.hcl:5,", "keyring.transit.token: expected a string"}},
		"cluster": {map[string]string{"a.hcl": minimal}, []string{"-bootstrap-expect", "-3"},
			[]string{"flag -bootstrap-expect: server.bootstrap_expect: must be a number of servers"}},
		"flag of later": {map[string]string{"a.hcl": minimal}, []string{"-eventlog-level=debug"},
			[]string{"flag -eventlog-level: eventlog.level: the Windows event log: not available yet"}},
		"join": {map[string]string{"a.hcl": minimal}, []string{"-retry-join", "provider=aws tag_key=x"},
			[]string{"discovery of servers by provider=aws"}},
		"gossip key": {map[string]string{"a.hcl": minimal}, []string{"-encrypt", "c2hvcnQ="},
			[]string{"flag -encrypt: server.encrypt: must be 16, 24 or 32 bytes"}},
		"unknown flag": {map[string]string{"a.hcl": minimal}, []string{"-nope"}, []string{"-nope"}},
		"argument":     {map[string]string{"a.hcl": minimal}, []string{"nope"}, []string{"no arguments"}},
		"no role":      {map[string]string{"a.hcl": `data_dir = "/x"`}, nil, []string{"neither server nor client"}},
		"no data_dir":  {map[string]string{"a.hcl": `server { enabled = true }`}, nil, []string{"data_dir is not set"}},
		"relative data_dir": {map[string]string{"a.hcl": "server { enabled = true }\ndata_dir = \"x\"\n"}, nil,
			[]string{"a.hcl:2: data_dir", "absolute"}},
		"bad address": {map[string]string{"a.hcl": minimal + `bind_addr = "nowhere"`}, nil,
			[]string{"bind_addr", "neither an IP address"}},
		"node pool all": {map[string]string{"a.hcl": minimal}, []string{"-node-pool", "all"}, []string{"client.node_pool"}},
		"log level":     {map[string]string{"a.hcl": minimal + `log_level = "loud"`}, nil, []string{"log_level", "TRACE"}},
		"option": {map[string]string{"a.hcl": minimal + `client { options = { "driver.nope" = ["s3cret"] } }`}, nil,
			[]string{"driver.nope", "must be a string"}},
		"size": {map[string]string{"a.hcl": minimal + `limits { http_max_request_body = "huge" }`}, nil,
			[]string{"http_max_request_body"}},
		"two faults of ours": {map[string]string{"a.hcl": minimal + "acl { role_ttl = \"-1s\" }\ntls { rpc = true }\n"}, nil,
			[]string{"acl.role_ttl", "tls.rpc"}},
		"meta of wrong form": {map[string]string{"a.hcl": minimal}, []string{"-meta", "x"}, []string{"-meta", "key=value"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := load(t, c.files, c.args...)
			if err == nil {
				t.Fatalf("Parse() = %+v, want an error", s.Config)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Parse() = %v\nwant %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error contains a value: %v", err)
			}
		})
	}
}

// A block of an absent feature is accepted if it does not enable the feature.
func TestDefaultsOfLaterFeaturesAreFine(t *testing.T) {
	_, err := load(t, map[string]string{"a.hcl": minimal + `
		acl { enabled = false }
		tls { http = false }
		consul { checks_use_advertise = false }
		vault { enabled = false }
		ui { enabled = true }
		autopilot { cleanup_dead_servers = true }
		keyring "aead" { active = true }
		leave_on_interrupt = true
		disable_update_check = true
	`})
	if err != nil {
		t.Errorf("Parse() = %v", err)
	}
}

func TestDev(t *testing.T) {
	s, err := Parse([]string{"-dev", "-bind", "0.0.0.0", "-meta", "a=b"})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Server.Enabled || !s.Client.Enabled || s.BindAddr != "0.0.0.0" || !s.EnableDebug || s.Client.Meta["a"] != "b" {
		t.Errorf("settings = %+v", s.Config)
	}
	if raw := driverConfig(s, "raw_exec"); raw["enabled"] != true {
		t.Errorf("raw_exec = %v", raw)
	}
}

// With -dev both roles are enabled, regardless of files and flags. Test harnesses disable the client
// in their JSON and start the agent with -dev.
func TestDevRunsBothRoles(t *testing.T) {
	const json, hcl = `{"client": {"enabled": false}, "server": {"enabled": false}}`, "client { enabled = false }"
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
	}{
		"JSON":  {files: map[string]string{"a.json": json}},
		"HCL":   {files: map[string]string{"a.hcl": hcl}},
		"flags": {args: []string{"-client=false", "-server=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := load(t, c.files, append([]string{"-dev"}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if !s.Server.Enabled || !s.Client.Enabled {
				t.Errorf("server %v, client %v, want both", s.Server.Enabled, s.Client.Enabled)
			}
		})
	}
	s, err := load(t, map[string]string{"1.hcl": minimal + "client { enabled = true }", "2.hcl": hcl})
	if err != nil || s.Client.Enabled {
		t.Errorf("without -dev a later file turns the client off: %v, %v", s.Client.Enabled, err)
	}
}

// Every flag of the table sets an existing key to its value.
func TestEveryFlagWorks(t *testing.T) {
	values := map[string]string{"client.meta": "a=b", "server.server_join.retry_interval": "5s", "client.network_speed": "10",
		"server.bootstrap_expect": "1", "server.raft_protocol": "3", "server.server_join.retry_max": "2"}
	for _, row := range flagTable {
		s := Default()
		text := values[row.path]
		if row.isBool {
			text = "true"
		} else if text == "" {
			if text = "word"; strings.Contains(row.path, "failures_before") {
				text = "3"
			}
		}
		if err := s.setFlag(row.name, row.path, text); err != nil {
			t.Errorf("flag -%s: %v", row.name, err)
		}
		if reflect.DeepEqual(s.Config, Default().Config) && text != "1" && row.path != "server.raft_protocol" {
			t.Errorf("flag -%s sets nothing", row.name)
		}
	}
	set := flag.NewFlagSet("agent", flag.ContinueOnError)
	Declare(set)
	var missing []string
	for _, name := range strings.Fields(allFlags) {
		if set.Lookup(name) == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		t.Errorf("flags of the compatibility table that are not known: %v", missing)
	}
}

// allFlags lists the flags of the agent command of Nomad 2.0.
const allFlags = `acl-enabled acl-replication-token alloc-dir alloc-mounts-dir bind bootstrap-expect client-intro-token client config
consul-address consul-auth consul-auto-advertise consul-ca-file consul-cert-file consul-checks-use-advertise consul-client-auto-join
consul-client-failures-before-critical consul-client-failures-before-warning consul-client-http-check-name consul-client-service-name
consul-key-file consul-server-auto-join consul-server-failures-before-critical consul-server-failures-before-warning
consul-server-http-check-name consul-server-rpc-check-name consul-server-serf-check-name consul-server-service-name consul-ssl
consul-token consul-verify-ssl data-dir dc dev-connect dev-consul dev-vault dev encrypt eventlog-level eventlog host-volume-plugin-dir
host-volumes-dir join log-include-location log-json log-level meta network-interface network-speed node-class node-pool node plugin-dir
preferred-address-family raft-protocol region rejoin retry-interval retry-join retry-max server servers state-dir vault-address
vault-ca-file vault-ca-path vault-cert-file vault-create-from-role vault-enabled vault-key-file vault-namespace vault-tls-server-name
vault-tls-skip-verify`

func TestSecretsAreNotShown(t *testing.T) {
	s := Default()
	s.ACL.ReplicationToken, s.Server.Encrypt = "canary", "canary"
	s.Consul = []*Consul{{Token: "canary", Auth: "canary"}}
	s.Vault = []*Vault{{Token: "canary"}}
	s.Telemetry.CirconusAPIToken = "canary"
	s.Plugin = map[string]*Plugin{"docker": {Config: map[string]any{"auth": map[string]any{"password": "canary"}, "endpoint": "shown"}}}
	s.TLS.KeyFile = "/etc/key.pem"
	shown := shownBlock(reflect.ValueOf(s.Config))
	if got := find(shown, "canary"); len(got) > 0 {
		t.Errorf("shown: %v", got)
	}
	for _, open := range []string{"shown", "/etc/key.pem", "global"} {
		if len(find(shown, open)) == 0 {
			t.Errorf("%q is not shown", open)
		}
	}
}

// find returns the paths at which a value contains text.
func find(v any, text string) (at []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			for _, p := range find(e, text) {
				at = append(at, key+"."+p)
			}
		}
	case []any:
		for _, e := range v {
			at = append(at, find(e, text)...)
		}
	case string:
		if strings.Contains(v, text) {
			at = []string{""}
		}
	}
	return at
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "1M": 1 << 20, "32MiB": 32 << 20, "1KB": 1000, "1.5KiB": 1536, "2G": 2 << 30,
		"10 MB": 10e6} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "M", "-1", "0", "1X", "1.2.3"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestHostEnv(t *testing.T) {
	// The names from which the agent reads its secrets of Consul are part of it.
	for _, name := range []string{"NOMAD_TOKEN", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_default", "CONSUL_HTTP_TOKEN_other",
		"CONSUL_HTTP_TOKEN_FILE", "CONSUL_HTTP_AUTH"} {
		t.Setenv(name, "user:canary")
	}
	t.Setenv("PLAIN", "kept")
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:8500")
	env := Default().hostEnv()
	for name, value := range env {
		if strings.Contains(value, "canary") {
			t.Errorf("%s is passed to tasks", name)
		}
	}
	if env["PLAIN"] != "kept" || env["CONSUL_HTTP_ADDR"] == "" {
		t.Errorf("PLAIN = %q, CONSUL_HTTP_ADDR = %q", env["PLAIN"], env["CONSUL_HTTP_ADDR"])
	}
	s := Default()
	s.Client.Options = map[string]string{"env.denylist": "PLAIN, OTHER"}
	if _, there := s.hostEnv()["PLAIN"]; there {
		t.Error("the denylist of the operator is not applied")
	}
}

func TestConfigThatIsNotThere(t *testing.T) {
	if _, err := Parse([]string{"-config", filepath.Join(t.TempDir(), "nope.hcl")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Parse() = %v", err)
	}
}

func TestFlagNamesAreUnique(t *testing.T) {
	var names []string
	for _, row := range flagTable {
		names = append(names, row.name)
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("duplicate flag: %v", names)
	}
}
