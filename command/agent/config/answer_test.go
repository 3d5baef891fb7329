package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
)

// answer returns a configuration as the API shows it.
func answer(t *testing.T, shown any) (out map[string]any) {
	t.Helper()
	raw, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// refusedKeys returns the keys that this version refuses.
func refusedKeys(all []Difference) (keys []string) {
	for _, d := range all {
		if d.Refused {
			keys = append(keys, d.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// The defaults are not differences, whether they are shown or not.
func TestShownDefaultsAreNoDifferences(t *testing.T) {
	for name, shown := range map[string]map[string]any{"defaults": answer(t, Default().Redacted()), "nothing": {}, "nil": nil} {
		if got := DifferencesShown(shown); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An agent shows the same refused keys as its files have.
func TestShownKeysAreThoseOfTheFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nomad.hcl")
	if err := os.WriteFile(file, []byte(upstreamKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := Differences([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	s := Default()
	if err := s.load(file); err != nil {
		t.Fatal(err)
	}
	if got := DifferencesShown(answer(t, s.Redacted())); !reflect.DeepEqual(refusedKeys(got), refusedKeys(want)) {
		t.Errorf("shown %q, in the file %q", refusedKeys(got), refusedKeys(want))
	}
}

// Every key of a missing feature is found by the name of its field.
func TestEveryLaterKeyIsFound(t *testing.T) {
	tried := 0
	var walk func(block func(*Settings) reflect.Value, path, feature string)
	walk = func(block func(*Settings) reflect.Value, path, feature string) {
		for i, f := range decode.Fields(block(Default())) {
			later := feature
			if f.Later != "" {
				later = f.Later
			}
			field := func(s *Settings) reflect.Value { return decode.Fields(block(s))[i].Value }
			at := path + f.Key
			switch {
			case f.Mode != "":
			case f.Nested:
				walk(field, at+".", later)
			case later != "":
				text := other(at, f.Value)
				if f.Value.Kind() == reflect.Map {
					text = "a=b"
				}
				if text == "false" {
					continue // an agent shows it for a key that is not set, too
				}
				tried++
				s := Default()
				if err := decode.SetText(field(s), text); err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				if got := refusedKeys(DifferencesShown(answer(t, s.Redacted()))); !slices.Equal(got, []string{at}) {
					t.Errorf("%s = %s: differences %q", at, text, got)
				}
			}
		}
	}
	walk(func(s *Settings) reflect.Value { return reflect.ValueOf(&s.Config).Elem() }, "", "")
	if tried < 30 {
		t.Errorf("only %d keys were tried", tried)
	}
}

// The names and forms of Nomad's fields differ from those of this project.
func TestShownByUpstream(t *testing.T) {
	shown := `{
		"DataDir": "/var/nomad", "PluginDir": "/var/nomad/plugins", "EnableSyslog": false, "SyslogFacility": "LOCAL0",
		"Consuls": [{"Name": "default", "Addr": "10.0.0.1:8500", "Timeout": 5000000000, "Token": "<redacted>", "Tags": ["edge"], "AutoAdvertise": true, "ServiceIdentity": null}],
		"Vaults": [{"Name": "default", "Enabled": null, "Addr": "https://vault.service.consul:8200"}],
		"Client": {"Enabled": true, "AllocMountsDir": "/var/alloc_mounts", "HostVolumesDir": "/var/nomad/host_volumes", "HostVolumePluginDir": "/srv/plugins", "CommonPluginDir": "/var/nomad/common_plugins",
			"CNIPath": "/opt/cni/bin", "CNIConfigDir": "/opt/cni/config", "BridgeNetworkName": "", "HostNetworks": [{"Name": "public", "CIDR": "10.0.0.0/8"}], "HostVolumes": [{"Name": "v", "Path": "/v"}],
			"NoHostUUID": true, "Options": {"user.checked_drivers": "raw_exec"}, "ServerJoin": {"RetryJoin": ["provider=aws tag_key=nomad"], "RetryInterval": 30000000000},
			"DrainOnShutdown": null, "ChrootEnv": {}},
		"Server": {"RetryJoin": [], "JobTrackedVersions": 12, "PlanRejectionTracker": {"Enabled": false, "NodeThreshold": 100, "NodeWindow": 300000000000}, "CSIPluginGCThreshold": "1h",
			"DefaultSchedulerConfig": {"PauseEvalBroker": true}, "UnknownToUs": {"x": [1, 2]}},
		"Telemetry": {"StatsdAddr": "10.0.0.2:8125", "CirconusAPIApp": "a"},
		"Plugins": [{"Name": "podman", "Args": null, "Config": {}}, {"Name": "raw_exec"}],
		"TLSConfig": {"EnableRPC": true, "CAFile": "/etc/ca.pem"}, "ACL": {"Enabled": true}, "UI": {"Enabled": true}
	}`
	got := DifferencesShown(answer(t, json.RawMessage(shown)))
	want := []string{"client.server_join.retry_join", "server.job_tracked_versions", "telemetry.circonus_api_app"}
	if keys := refusedKeys(got); !slices.Equal(keys, want) {
		t.Errorf("refused keys\n%q, want\n%q", keys, want)
	}
	for _, d := range got {
		if d.Place != "shown by the agent" && !strings.Contains(d.Key, "plugin ") {
			t.Errorf("the place of %s is %q", d.Key, d.Place)
		}
		if strings.Contains(d.Effect+d.Key, "raw_exec\"") {
			t.Errorf("a driver of this version is a difference: %+v", d)
		}
	}
}
