package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

type block = map[string]any

// decoded returns a decoded plugin block.
func decoded(t *testing.T, plugin block) *config.Plugin {
	t.Helper()
	v, err := drivers.Decode(plugin, config.PluginSpec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.DecodePlugin(v)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// A plugin block is checked by the agent, and what the driver does not have is refused by name.
func TestCheckConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config block
		want   string // part of the error, "" for none
	}{
		"none": {nil, ""},
		"all": {block{"endpoint": "unix:///run/docker.sock", "auth": block{"config": "/c.json", "helper": "x"},
			"tls":          block{"cert": "a", "key": "b", "ca": "c"},
			"extra_labels": []any{"job_*"}, "logging": block{"type": "journald", "config": []any{block{"tag": "x"}}},
			"gc": block{"image": false, "image_delay": "1h", "container": false,
				"dangling_containers": block{"enabled": false, "period": "1m", "creation_grace": "1m", "dry_run": true}},
			"volumes": block{"enabled": true, "selinuxlabel": "z"}, "allow_privileged": true, "allow_caps": []any{"CAP_CHOWN", "all"},
			"nvidia_runtime": "nvidia",
			"allow_runtimes": []any{"runc"}, "allow_logging_types": []any{"journald"}, "infra_image": "https://registry.example/pause:3",
			"infra_image_pull_timeout": "1m", "image_pull_timeout": "1m",
			"pull_activity_timeout": "1m", "container_exists_attempts": 3, "oom_score_adj": 10, "pids_limit": 10, "disable_log_collection": true,
			"allowed_modes": block{"pid": []any{"host", "container:*"}, "ipc": []any{"shareable"}, "userns": []any{"host"}, "uts": []any{"host"}}},
			""},
		"unknown":         {block{"allow_all": true}, `unknown argument "allow_all"`},
		"unknown, nested": {block{"volumes": block{"enable": true}}, "enable"},
		"creation_grace": {block{"gc": block{"dangling_containers": block{"creation_grace": "59s"}}},
			"creation_grace is less than minimum, 1m0s"},
		"activity": {block{"pull_activity_timeout": "1s"}, "pull_activity_timeout is less than minimum, 1m0s"},
		"duration": {block{"gc": block{"image_delay": "soon"}}, `gc.image_delay: "soon" is not a duration`},
		"pid mode": {block{"allowed_modes": block{"pid": []any{"shareable"}}},
			`cannot apply allowed_modes configuration, "shareable" is not a valid pid_mode`},
		"uts mode":         {block{"allowed_modes": block{"uts": []any{"container:x"}}}, `"container:x" is not a valid uts_mode`},
		"capability":       {block{"allow_caps": []any{"fly"}}, `allow_caps: unknown capability "fly"`},
		"network":          {block{"allow_networks": []any{"[a"}}, `allow_networks: "[a" is not a pattern`},
		"helper_dir":       {block{"auth": block{"helper_dir": "bin"}}, `helper_dir "bin" is not an absolute path`},
		"label":            {block{"extra_labels": []any{"[a"}}, `extra_labels: "[a" is not a pattern`},
		"windows":          {block{"windows_allow_insecure_container_admin": true}, "not served: windows_allow_insecure_container_admin"},
		"nvidia":           {block{"nvidia_runtime": "other"}, "not served: nvidia_runtime"},
		"attempts":         {block{"container_exists_attempts": 0}, "container_exists_attempts 0 is not between 1 and"},
		"negative":         {block{"pids_limit": -1}, "pids_limit -1 is negative"},
		"type":             {block{"allow_privileged": "perhaps"}, "allow_privileged"},
		"logging, no text": {block{"logging": block{"config": []any{1}}}, "logging.config: is not a map of strings"},
	} {
		t.Run(name, func(t *testing.T) {
			err := config.CheckConfig(c.config)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckConfig() = %v, want %q", err, c.want)
			}
		})
	}
}

// A task is checked by the servers as far as it has no references.
func TestCheckTask(t *testing.T) {
	for name, c := range map[string]struct {
		config block
		want   string // part of the error, "" for none
	}{
		"image":  {block{"image": "web"}, ""},
		"digest": {block{"image": "registry.example:5000/a/web@sha256:" + strings.Repeat("a", 64)}, ""},
		"scheme": {block{"image": "https://registry.example/web:1"}, ""},
		"references": {block{"image": "web:${NOMAD_META_v}", "args": []any{"${x}"},
			"mount": []any{block{"type": "bind", "source": "${x}", "target": "/x"}}, "pids_limit": "${y}"}, ""},
		"image by name":   {block{"image": "${meta.image}"}, ""},
		"labels, blocks":  {block{"image": "web", "labels": []map[string]any{{"a": "b"}, {"c": 1}}}, ""},
		"no image":        {block{"command": "x"}, "image"},
		"empty image":     {block{"image": ""}, "image name required for docker driver"},
		"wrong image":     {block{"image": "Web Server"}, "does not match registry specification"},
		"unknown":         {block{"image": "web", "volume": []any{"x"}}, `unknown argument "volume"`},
		"unknown, nested": {block{"image": "web", "mount": []any{block{"type": "tmpfs", "target": "/x", "read_only": true}}}, "read_only"},
		"blank command":   {block{"image": "web", "command": "  "}, "command empty"},
		"command, blanks": {block{"image": "web", "command": "run "}, "command contains extra white space"},
		"ports":           {block{"image": "web", "ports": []any{"http"}}, ""},
		"port_map":        {block{"image": "web", "port_map": []any{block{"http": 80}, block{"admin": "8080"}}}, ""},
		"cpuset":          {block{"image": "web", "cpuset_cpus": "0"}, ""},
		"isolation":       {block{"image": "web", "isolation": "hyperv"}, "not served: isolation"},
		"network": {block{"image": "web", "network_mode": "my-net", "network_aliases": []any{"db", "db_1"}, "ipv4_address": "192.0.2.1",
			"ipv6_address": "2001:db8::1", "mac_address": "02:68:b3:29:da:98", "advertise_ipv6_address": true}, ""},
		"network, references": {block{"image": "web", "network_mode": "${meta.net}", "network_aliases": []any{"a-${NOMAD_ALLOC_INDEX}"},
			"ipv4_address": "192.0.2.1"}, ""},
		"no names":        {block{"image": "web", "network_mode": "my-net", "network_aliases": []any{}}, ""},
		"aliases":         {block{"image": "web", "network_aliases": []any{"x"}}, "network_aliases needs a network_mode with the name of a network"},
		"address":         {block{"image": "web", "network_mode": "bridge", "ipv4_address": "192.0.2.1"}, "ipv4_address needs a network_mode"},
		"address, 6":      {block{"image": "web", "network_mode": "host", "ipv6_address": "2001:db8::1"}, "ipv6_address needs a network_mode"},
		"no address":      {block{"image": "web", "network_mode": "n", "ipv4_address": "a"}, "failed to parse ipv4_address"},
		"another family":  {block{"image": "web", "network_mode": "n", "ipv4_address": "2001:db8::1"}, "failed to parse ipv4_address"},
		"mapped address":  {block{"image": "web", "network_mode": "n", "ipv6_address": "::ffff:192.0.2.1"}, "failed to parse ipv6_address"},
		"zone":            {block{"image": "web", "network_mode": "n", "ipv6_address": "fe80::1%eth0"}, "failed to parse ipv6_address"},
		"mac":             {block{"image": "web", "mac_address": "02-68-b3-29-da-98"}, ""},
		"mac, no":         {block{"image": "web", "mac_address": "2"}, "failed to parse mac_address"},
		"mac of a group":  {block{"image": "web", "mac_address": "ff:ff:ff:ff:ff:ff"}, "not the address of one interface"},
		"mac of nothing":  {block{"image": "web", "mac_address": "00:00:00:00:00:00"}, "not the address of one interface"},
		"mac, long":       {block{"image": "web", "mac_address": "02:00:5e:10:00:00:00:01"}, "not the address of one interface"},
		"mac of the node": {block{"image": "web", "network_mode": "host", "mac_address": "02:68:b3:29:da:98"}, "mac_address needs a network of the task's own"},
		"alias, domain":   {block{"image": "web", "network_mode": "n", "network_aliases": []any{"db.example"}}, `"db.example" cannot be a name in network "n"`},
		"hostname":        {block{"image": "web", "network_mode": "n", "hostname": "registry.example"}, "cannot be a name in network"},
		"hostname alone":  {block{"image": "web", "hostname": "registry.example"}, ""},
		"many aliases":    {block{"image": "web", "network_mode": "n", "network_aliases": slices.Repeat([]any{"a"}, 65)}, "at most 64 are possible"},
		"spelling":        {block{"image": "web", "network_mode": "Host"}, `network_mode "Host" is neither`},
		"path":            {block{"image": "web", "network_mode": "ns:/proc/1/ns/net"}, "is neither host, none, bridge, default nor the name"},
		"path, relative":  {block{"image": "web", "network_mode": "../../containers"}, "is neither host, none, bridge, default nor the name"},
		"no container":    {block{"image": "web", "network_mode": "container:"}, "not served: network_mode"},
		"other's network": {block{"image": "web", "network_mode": "container:x"}, `not served: network_mode "container:x"`},
		"pid mode":        {block{"image": "web", "pid_mode": "private"}, `"private" is not a valid pid_mode`},
		"cgroupns":        {block{"image": "web", "cgroupns": "x"}, `cgroupns "x" is neither private nor host`},
		"security_opt":    {block{"image": "web", "security_opt": []any{"privileges"}}, `invalid security_opt: "privileges"`},
		"ulimit, empty":   {block{"image": "web", "ulimit": block{"nofile": ""}}, "cannot be empty"},
		"ulimit, soft":    {block{"image": "web", "ulimit": block{"nofile": "x:1"}}, "malformed soft ulimit"},
		"ulimit, hard":    {block{"image": "web", "ulimit": block{"nofile": "1:x"}}, "malformed hard ulimit"},
		"period":          {block{"image": "web", "cpu_cfs_period": 1000001}, "invalid value for cpu_cfs_period"},
		"volume":          {block{"image": "web", "volumes": []any{"x"}}, "not <src>:<destination> format"},
		"mount type": {block{"image": "web", "mount": []any{block{"type": "npipe", "target": "/x"}}},
			`invalid mount type, must be "bind", "volume", "tmpfs": "npipe"`},
		"tmpfs source": {block{"image": "web", "mount": []any{block{"type": "tmpfs", "target": "/x", "source": "y"}}},
			`invalid source, must be "" for tmpfs`},
		"no target": {block{"image": "web", "mount": []any{block{"type": "tmpfs"}}}, "has no target"},
		"propagation": {block{"image": "web",
			"mount": []any{block{"type": "bind", "source": "x", "target": "/x", "bind_options": block{"propagation": "far"}}}},
			"unknown propagation"},
		"tmpfs mode": {block{"image": "web", "mount": []any{block{"type": "tmpfs", "target": "/x", "tmpfs_options": block{"mode": 99999}}}},
			"out of range"},
		"device": {block{"image": "web", "devices": []any{block{"host_path": "/dev/x", "cgroup_permissions": "rwx"}}},
			"invalid cgroup permission string"},
		"labels, no texts": {block{"image": "web", "labels": []any{"a"}}, "labels: is not a map of strings"},
		"pull timeout":     {block{"image": "web", "image_pull_timeout": "x"}, "is not a duration"},
		"password":         {block{"image": "Web", "auth": block{"username": "u", "password": "hidden"}}, "does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			err := config.CheckTask(c.config)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckTask() = %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}

// An option that Nomad ignores is accepted with a warning.
func TestWarnings(t *testing.T) {
	kind := config.Kind()
	got := kind.WarnTask("", block{"image": "web", "cpuset_cpus": "0-3"})
	if len(got) != 1 || !strings.HasPrefix(got[0], "cpuset_cpus has no effect") {
		t.Errorf("WarnTask() = %q", got)
	}
	if got := kind.WarnTask("", block{"image": "web"}); len(got) != 0 {
		t.Errorf("WarnTask() without the option = %q", got)
	}
}
