package config

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/staticvolume"
	"github.com/open-nomad/open-nomad/command/agent/config/decode"
	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// agentKeys are read by package agent, whose tests check their effect.
var agentKeys = []string{
	"name", "data_dir", "log_level", "log_json", "log_file", "log_include_location", "log_rotate_duration", "log_rotate_bytes",
	"log_rotate_max_files", "enable_debug", "leave_on_interrupt", "leave_on_terminate", "ports.http", "addresses.http", "advertise.http",
	"client.enabled", "client.chroot_env", "server.enabled",
	"client.server_join.retry_max", "client.server_join.retry_interval", "http_api_response_headers", "http_api_allowed_hosts",
	"http_api_allowed_origins",
	"limits.http_max_conns_per_client", "limits.http_max_request_body", "limits.https_handshake_timeout",
	"telemetry.in_memory_collection_interval", "telemetry.in_memory_retention_period", "telemetry.prometheus_metrics",
	"telemetry.allow_anonymous_metrics",
	"telemetry.disable_hostname", "telemetry.use_node_name", "telemetry.collection_interval", "telemetry.prefix_filter",
	"telemetry.filter_default", "audit.enabled",
}

// another holds values for keys that do not take any.
var another = map[string]string{
	"http_api_response_headers": "X-A=b", "server.bootstrap_expect": "3",
	"bind_addr": "127.0.0.2", "addresses.rpc": "127.0.0.2", "addresses.serf": "127.0.0.2", "advertise.rpc": "127.0.0.2",
	"advertise.serf":   "127.0.0.2",
	"client.node_pool": "other", "client.preferred_address_family": "ipv6", "client.options": "fingerprint.denylist=memory",
	"client.meta": "a=b", "client.chroot_env": "/usr=/usr",
	"server.enabled_schedulers": "batch", "server.encrypt": "MDEyMzQ1Njc4OWFiY2RlZg==", "server.job_max_source_size": "2M",
	"server.default_scheduler_config.scheduler_algorithm": "spread",
	"client.max_dynamic_port":                             "31000", "server.job_max_priority": "200", "server.privileged": "explicit",
	"server.default_scheduler_config.preemption_config.system_scheduler_enabled": "false",
	"server.data_dir": "/var/server", "client.state_dir": "/var/client", "client.alloc_dir": "/var/alloc",
}

// other returns a text for a value that differs from the default of the field.
func other(path string, v reflect.Value) string {
	if text, ok := another[path]; ok {
		return text
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return (time.Duration(v.Int()) + time.Second).String()
	case v.Kind() == reflect.Bool && !v.Bool():
		return "true"
	case v.Kind() == reflect.Bool:
		return "false"
	case v.Kind() == reflect.Int:
		return strconv.FormatInt(v.Int()+1, 10)
	case v.Kind() == reflect.Float64:
		return "42"
	}
	return "other"
}

// built holds the configurations of the parts of an agent.
type built struct {
	Server server.Config
	Client client.Config
	TLS    certs.Config
}

func configs(t *testing.T, s *Settings) built {
	t.Helper()
	b := built{TLS: s.CertsConfig()}
	var err error
	if b.Server, err = s.ServerConfig("/var/nomad"); err != nil {
		t.Fatal(err)
	}
	if b.Client, err = s.ClientConfig("/var/nomad", "127.0.0.1:4646"); err != nil {
		t.Fatal(err)
	}
	return b
}

// leaves lists the keys that do not belong to an absent feature.
func leaves(block reflect.Value, path string, out map[string]reflect.Value) {
	for _, f := range decode.Fields(block) {
		switch {
		case f.Later != "" || f.Mode != "":
		case f.Nested:
			leaves(f.Value, path+f.Key+".", out)
		default:
			out[path+f.Key] = f.Value
		}
	}
}

// whole returns settings with which an agent can start.
func whole() *Settings {
	s := Default()
	s.DataDir, s.Name, s.Server.Enabled, s.Client.Enabled = "/var/nomad", "n", true, true
	return s
}

// An accepted key has an effect: it changes the configuration of a part of the agent. Every other
// key is rejected, or is in one of the lists above.
func TestEveryKeyHasAnEffect(t *testing.T) {
	all := map[string]reflect.Value{}
	leaves(reflect.ValueOf(&Default().Config).Elem(), "", all)
	for path, v := range all {
		t.Run(path, func(t *testing.T) {
			s := whole()
			if err := s.setFlag("test", path, other(path, v)); err != nil {
				t.Fatal(err)
			}
			if err := s.check(); err != nil {
				if !strings.Contains(err.Error(), path) {
					t.Errorf("check() = %v, want it to name the key", err)
				}
				return
			}
			changes := !reflect.DeepEqual(configs(t, s), configs(t, whole()))
			if listed := slices.Contains(agentKeys, path) || withoutEffect[path] != ""; !changes && !listed {
				t.Error("the key is accepted and does nothing")
			}
		})
	}
	for _, path := range slices.Concat(agentKeys, slices.Collect(maps.Keys(withoutEffect))) {
		if _, ok := all[path]; !ok {
			t.Errorf("%s is listed, but is not a key", path)
		}
	}
	if n := len(slices.Collect(maps.Keys(all))); n < 100 {
		t.Errorf("only %d keys were tried", n)
	}
}

// Settings reach the parts that use them with their values.
func TestValuesArrive(t *testing.T) {
	s, err := load(t, map[string]string{"a.hcl": `
		data_dir = "/var/nomad"
		name = "n"
		bind_addr = "127.0.0.1"
		advertise { serf = "10.0.0.1" }
		limits { rpc_handshake_timeout = "2s" rpc_max_conns_per_client = 0 }
		rpc {
			accept_backlog = 31
			keep_alive_interval = "32s"
			connection_write_timeout = "33s"
			stream_open_timeout = "0s"
			stream_close_timeout = "34s"
			dial_timeout = "1s"
		}
		autopilot { cleanup_dead_servers = false server_stabilization_time = "31s" last_contact_threshold = "32s" max_trailing_logs = 33 min_quorum = 34 }
		server {
			enabled = true
			non_voting_server = true
			data_dir = "/srv/raft"
			min_heartbeat_ttl = "11s"
			heartbeat_grace = "12s"
			failover_heartbeat_ttl = "13s"
			max_heartbeats_per_second = 14
			num_schedulers = 3
			enabled_schedulers = ["batch"]
			raft_multiplier = 2
			raft_snapshot_threshold = 15
			raft_snapshot_interval = "16s"
			raft_trailing_logs = 17
			raft_logstore { backend = "boltdb" boltdb { no_freelist_sync = true } }
			eval_gc_threshold = "18m"
			node_gc_threshold = "19m"
			start_timeout = "20s"
			event_buffer_size = 35
			default_scheduler_config { memory_oversubscription_enabled = true }
		}
		client {
			enabled = true
			network_interface = "lo"
			host_network "public" {
				cidr = "10.0.0.0/8, fd00::/8"
				interface = "{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"ipv4\" | attr \"name\" }}"
				reserved_ports = "22"
			}
			host_network "all" {}
			cpu_total_compute = 21
			memory_total_mb = 22
			node_class = "c"
			node_pool = "p"
			min_dynamic_port = 23000
			gc_interval = "24s"
			gc_max_allocs = 25
			max_kill_timeout = "26s"
			disable_remote_exec = true
			host_volumes_dir = "/srv/hv"
			host_volume_plugin_dir = "/srv/hvp"
			gc_volumes_on_node_gc = true
			host_volume "data" { path = "/srv/data" }
			host_volume "log" {
				path      = "/srv/log"
				read_only = true
			}
			reserved { cpu = 27 memory = 28 disk = 29 reserved_ports = "22" cores = "0" }
		}
	`})
	if err != nil {
		t.Fatal(err)
	}
	b := configs(t, s)
	sv, c := b.Server, b.Client
	mux := wire.Mux{AcceptBacklog: 31, KeepAlive: 32 * time.Second, WriteTimeout: 33 * time.Second, OpenTimeout: -1,
		CloseTimeout: 34 * time.Second}
	for _, v := range []struct{ got, want any }{
		{sv.Dir, "/srv/raft"}, {sv.SerfAdvertise, "10.0.0.1:4648"}, {sv.RPCAddr, "127.0.0.1:4647"}, {sv.RPCHandshakeTimeout, 2 * time.Second},
		{sv.RPCMaxConnsPerClient, -1}, {sv.Mux, mux}, {c.Mux, mux}, {sv.DialTimeout, time.Second}, {c.DialTimeout, time.Second},
		{sv.MinHeartbeatTTL, 11 * time.Second}, {sv.HeartbeatGrace, 12 * time.Second},
		{sv.FailoverHeartbeatTTL, 13 * time.Second}, {sv.MaxHeartbeatsPerSecond, 14.0}, {sv.Workers, 3}, {sv.Schedulers, []string{"batch"}},
		{sv.Raft, consensus.Tuning{Multiplier: 2, SnapshotThreshold: 15, SnapshotInterval: 16 * time.Second, TrailingLogs: 17}},
		{sv.EvalGCThreshold, 18 * time.Minute}, {sv.NodeGCThreshold, 19 * time.Minute}, {sv.StartTimeout, 20 * time.Second}, {sv.EventBuffer, 35},
		{*sv.Autopilot, nomad.AutopilotConfig{ServerStabilizationTime: 31 * time.Second, LastContactThreshold: 32 * time.Second,
			MaxTrailingLogs: 33, MinQuorum: 34}},
		{sv.NonVoting, true}, {sv.LogStore, logstore.Backend{Name: "boltdb", NoFreelistSync: true}},
		{sv.Scheduler.MemoryOversubscriptionEnabled, true}, {sv.Scheduler.PreemptionConfig.SystemSchedulerEnabled, true},
		{c.Fingerprint.Interface, "lo"}, {c.Fingerprint.TotalCompute, 21}, {c.Fingerprint.MemoryMB, 22}, {c.NodeClass, "c"}, {c.NodePool, "p"},
		{c.Fingerprint.MinDynamicPort, 23000}, {c.GC.Interval, 24 * time.Second}, {c.GC.MaxAllocs, 25}, {c.MaxKillTimeout, 26 * time.Second},
		{c.DisableRemoteExec, true},
		{c.HostVolumesDir, "/srv/hv"}, {c.HostVolumePluginDir, "/srv/hvp"}, {c.GCVolumesOnNodeGC, true},
		{c.HostVolumes, map[string]staticvolume.Volume{"data": {Path: "/srv/data"}, "log": {Path: "/srv/log", ReadOnly: true}}},
		{c.Fingerprint.HostNetworks,
			[]fingerprint.HostNetwork{{Name: "all"}, {Name: "public", CIDR: "10.0.0.0/8, fd00::/8", Interface: "lo", ReservedPorts: "22",
				Within: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}},
		{c.Fingerprint.Reserved, fingerprint.Reserved{CPU: 27, MemoryMB: 28, DiskMB: 29, Ports: "22", Cores: "0"}},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("got %#v, want %#v", v.got, v.want)
		}
	}
}

// A setting of the boltdb log store selects it, unless another one is named.
func TestLogStore(t *testing.T) {
	for text, want := range map[string]logstore.Backend{
		"": {Name: "wal"},
		"raft_boltdb { no_freelist_sync = true }":                                         {Name: "boltdb", NoFreelistSync: true},
		"raft_boltdb { no_freelist_sync = false }":                                        {Name: "wal"},
		"raft_logstore { boltdb { no_freelist_sync = true } }":                            {Name: "boltdb", NoFreelistSync: true},
		"raft_logstore { backend = \"boltdb\" }\nraft_boltdb { no_freelist_sync = true }": {Name: "boltdb", NoFreelistSync: true},
	} {
		s, err := load(t, map[string]string{"a.hcl": "data_dir = \"/srv\"\nserver {\n enabled = true\n" + text + "\n}"})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := configs(t, s).Server.LogStore; !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestWorkers(t *testing.T) {
	for text, want := range map[string]int{"": 0, "num_schedulers = -1": 0, "num_schedulers = 0": -1, "num_schedulers = 7": 7} {
		s, err := load(t, map[string]string{"a.hcl": "data_dir = \"/srv\"\nserver {\n enabled = true\n" + text + "\n}"})
		if err != nil {
			t.Fatal(err)
		}
		if got := configs(t, s).Server.Workers; got != want {
			t.Errorf("%q: %d workers, want %d", text, got, want)
		}
	}
}

// Settings that the agent cannot apply are rejected by name.
func TestRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		`client { server_join { retry_join = ["provider=aws tag_key=x"] } }`: "client.server_join.retry_join: " +
			"discovery of servers by provider=aws",
		`client { server_join { retry_join = ["tag_key=x provider=gce"] } }`: "client.server_join.retry_join: " +
			"discovery of servers by provider=gce",
		`client { server_join { retry_join = ["x=y"] } }`: "client.server_join.retry_join: must be an address",
		`client { servers = ["provider=aws"] }`: "client.servers: " +
			"discovery of servers by provider=aws: not available yet",
		`server { retry_join = ["provider=aws"] }`: "server.retry_join: " +
			"discovery of servers by provider=aws: not available yet",
		`server { server_join { retry_join = ["exec=/bin/find"] } }`:        "server.server_join.retry_join: discovery of servers by a command",
		`client { server_join { start_join = ["x"] } }`:                     "use retry_join",
		`client { chroot_env = { "/usr" = "/dev" } }`:                       "a task has its own /dev",
		`client { options = { "driver.raw_exec.enable" = "perhaps" } }`:     "must be true or false",
		`client { disk_free_mb = 1 }`:                                       "client.disk_free_mb",
		`client { cpu_total_compute = -1 }`:                                 "client.cpu_total_compute: must not be negative",
		`server { server_join { retry_join = ["provider=aws"] } }`:          "server.server_join.retry_join: discovery of servers",
		`rpc { keep_alive_interval = "0s" }`:                                "rpc.keep_alive_interval: must be above 0",
		`rpc { accept_backlog = 0 }`:                                        "rpc.accept_backlog: must be above 0",
		`rpc { stream_close_timeout = "-1s" }`:                              "rpc.stream_close_timeout: must not be negative",
		`server { num_schedulers = -2 }`:                                    "server.num_schedulers: must be a number of workers",
		`server { min_heartbeat_ttl = "0s" }`:                               "server.min_heartbeat_ttl: must be above 0",
		`server { default_scheduler_config { scheduler_algorithm = "x" } }`: "binpack or spread",
		`server { plan_rejection_tracker { node_threshold = 0 } }`:          "server.plan_rejection_tracker.node_threshold: must be above 0",
		`server { plan_rejection_tracker { node_window = "0s" } }`:          "server.plan_rejection_tracker.node_window: must be above 0",
		`autopilot { last_contact_threshold = "0s" }`: "autopilot: " +
			"autopilot last_contact_threshold must be above 0",
		`autopilot { enable_custom_upgrades = true }`:                                          "autopilot.enable_custom_upgrades: automated upgrades (Nomad Enterprise)",
		`autopilot { enable_redundancy_zones = true }`:                                         "autopilot.enable_redundancy_zones: redundancy zones (Nomad Enterprise)",
		`server { redundancy_zone = "a" }`:                                                     "server.redundancy_zone: redundancy zones (Nomad Enterprise)",
		`server { non_voting_server = true bootstrap_expect = 3 }`:                             "server.non_voting_server: only allowed on a server without bootstrap_expect",
		`server { raft_logstore { backend = "x" } }`:                                           "must be wal or boltdb",
		`server { raft_logstore { backend = "wal" } raft_boltdb { no_freelist_sync = true } }`: "server.raft_boltdb.no_freelist_sync: not supported with",
		`server { job_tracked_versions = 7 }`:                                                  "server.job_tracked_versions",
		`keyring "ocikms" { active = true }`:                                                   "keyring.ocikms: unknown provider",
		`keyring "aead" { active = false }`:                                                    "no keyring block is active",
		`keyring "aead" { key = "x" }`:                                                         "keyring.aead.key: aead has no such key",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := load(t, map[string]string{"a.hcl": minimal + text})
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a.hcl:4") {
				t.Errorf("Parse() = %v, want %q and the place", err, want)
			}
		})
	}
}

// Several keyrings, also of one provider, are configured with their keys. Files are merged. The
// agent shows no secret of them.
func TestKeyrings(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "env-s3cret")
	s, err := load(t, map[string]string{"a.hcl": minimal + `
		keyring "transit" {
			name = "one"
			active = true
			address = "https://one"
			token = "s3cret"
			key_name = "k"
			tls_skip_verify = true
		}
		keyring "transit" {
			name = "two"
			key_name = "k2"
		}
		keyring "aead" { active = true }
	`, "b.json": `{"keyring": {"transit": [{"name": "two", "address": "https://two"}], "awskms": {"kms_key_id": "k", "region": "r", "access_key": "a", "secret_key": "s3cret"}}}`})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.ServerConfig("/var/nomad")
	if err != nil {
		t.Fatal(err)
	}
	want := []kms.Config{
		{Provider: "aead", Active: true},
		{Provider: "awskms", Keys: map[string]string{"kms_key_id": "k", "region": "r", "access_key": "a", "secret_key": "s3cret"}},
		{Provider: "transit", Name: "one", Active: true,
			Keys: map[string]string{"address": "https://one", "token": "s3cret", "key_name": "k", "tls_skip_verify": "true"}},
		{Provider: "transit", Name: "two", Keys: map[string]string{"key_name": "k2", "address": "https://two"}},
	}
	if !reflect.DeepEqual(cfg.Keyring, want) {
		t.Errorf("keyrings are %v", cfg.Keyring)
		for i, k := range cfg.Keyring {
			t.Errorf("%d: %s %v %v", i, k.ID(), k.Active, k.Keys)
		}
	}
	shown := fmt.Sprint(shownBlock(reflect.ValueOf(s.Config)))
	if strings.Contains(shown, "s3cret") || !strings.Contains(shown, "https://one") ||
		strings.Contains(fmt.Sprintf("%+v %#v", s.Keyring, s.Keyring), "s3cret") {
		t.Errorf("the agent shows %s", shown)
	}
	lone, err := load(t, map[string]string{"a.hcl": minimal + `keyring "aead" {}`})
	if err != nil || !lone.keyrings()[0].Active {
		t.Errorf("a lone aead: %v", err)
	}
}
