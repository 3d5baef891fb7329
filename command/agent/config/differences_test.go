package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A part of upstream's configuration, without a role and a data_dir.
const upstreamKeys = `
consul { service_identity { aud = ["a"] extra_claims { b = "c" } } }
server { redundancy_zone = "a" }
client {
  cni_path = "/opt/cni/bin"
  host_network "public" { cidr = "10.0.0.0/8" }
  cpu_disable_dmidecode = true
  options = { "docker.cleanup.image" = "false" }
  server_join { retry_join = ["provider=aws tag_key=nomad"] }
}
plugin "podman" { config { allow_privileged = true } }
plugin "raw_exec" { config { enabled = true } }
ui { show_cli_hints = true }
`

func TestDifferences(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "nomad.hcl")
	if err := os.WriteFile(file, []byte(upstreamKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Differences([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []Difference{
		{file + ":3", "server.redundancy_zone", "redundancy zones (Nomad Enterprise): the agent does not start", true},
		{file + ":9", "client.server_join.retry_join", "discovery of servers by provider=aws: the agent does not start", true},
		{file + ":2", "consul.service_identity.extra_claims",
			"identities for Consul have the extra claims of their namespace: set them there: the agent does not start", true},
		{file + ":11", `plugin "podman"`, "neither this version nor plugin_dir has the driver: the node does not have it", false},
		{file + ":7", "client.cpu_disable_dmidecode", "the agent never runs dmidecode: accepted without effect", false},
		{file + ":13", "ui.show_cli_hints", "commands print no hints about the web UI: accepted without effect", false},
		{file + ":8", `client.options "docker.cleanup.image"`, "unknown option: accepted without effect", false},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// An error in a file is reported with its position, not as a difference.
func TestDifferencesOfWrongFiles(t *testing.T) {
	for text, want := range map[string]string{
		`server { enabld = true }`: `did you mean "enabled"?`,
		`ports { http = 70000 }`:   "70000 is not a port number",
	} {
		file := filepath.Join(t.TempDir(), "nomad.hcl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Differences([]string{file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", text, got, err, want)
		}
	}
	if _, err := Differences([]string{"/nowhere/nomad.hcl"}); err == nil {
		t.Error("a missing file is not an error")
	}
}
