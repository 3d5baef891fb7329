package config_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// hardened is a config with the most isolation.
func hardened(more block) block {
	out := block{"image": "web:1", "cap_drop": []any{"all"}, "security_opt": []any{"no-new-privileges"}}
	for name, value := range more {
		out[name] = value
	}
	return out
}

// The level of a container follows from its options, and what gives power over the node needs privilege.
func TestIsolates(t *testing.T) {
	for name, c := range map[string]struct {
		user   string
		config block
		level  drivers.Level
		power  string // a part of what needs privilege
	}{
		"the most":              {"app", hardened(nil), drivers.LevelRestricted, ""},
		"nothing":               {"", nil, drivers.LevelRestricted, ""},
		"plain":                 {"", block{"image": "web:1"}, drivers.LevelBaseline, ""},
		"user alone":            {"app", block{"image": "web:1"}, drivers.LevelBaseline, ""},
		"user of the image":     {"", hardened(nil), drivers.LevelBaseline, ""},
		"root":                  {"0:7", hardened(nil), drivers.LevelBaseline, ""},
		"group root":            {"7:0", hardened(nil), drivers.LevelBaseline, ""},
		"user by reference":     {"${meta.user}", hardened(nil), drivers.LevelBaseline, ""},
		"one harmless cap":      {"app", hardened(block{"cap_add": []any{"net_bind_service"}}), drivers.LevelRestricted, ""},
		"one default cap":       {"app", hardened(block{"cap_add": []any{"CAP_CHOWN"}}), drivers.LevelBaseline, ""},
		"cap beyond":            {"app", hardened(block{"cap_add": []any{"sys_admin"}}), drivers.LevelNone, ""},
		"NET_RAW":               {"app", hardened(block{"cap_add": []any{"net_raw"}}), drivers.LevelNone, ""},
		"all caps":              {"app", hardened(block{"cap_add": []any{"ALL"}}), drivers.LevelNone, ""},
		"cap by reference":      {"app", hardened(block{"cap_add": []any{"${meta.cap}"}}), drivers.LevelNone, ""},
		"privileges off":        {"app", hardened(block{"security_opt": []any{"no-new-privileges=false"}}), drivers.LevelBaseline, ""},
		"privileged":            {"app", hardened(block{"privileged": true}), drivers.LevelNone, "privileged"},
		"privileged, text":      {"app", hardened(block{"privileged": "true"}), drivers.LevelNone, "privileged"},
		"privileged, reference": {"app", hardened(block{"privileged": "${meta.p}"}), drivers.LevelNone, "privileged"},
		"not privileged":        {"app", hardened(block{"privileged": false}), drivers.LevelRestricted, ""},
		"devices":               {"app", hardened(block{"devices": []any{block{"host_path": "/dev/kvm"}}}), drivers.LevelNone, "devices"},
		"runtime with devices":  {"app", hardened(block{"runtime": "nvidia"}), drivers.LevelNone, ""},
		"runtime by reference":  {"app", hardened(block{"runtime": "${meta.rt}"}), drivers.LevelNone, ""},
		"plain runtime":         {"app", hardened(block{"runtime": "runc"}), drivers.LevelRestricted, ""},
		"host pid":              {"app", hardened(block{"pid_mode": "host"}), drivers.LevelHost, ""},
		"pid of a container":    {"app", hardened(block{"pid_mode": "container:x"}), drivers.LevelHost, ""},
		"host ipc":              {"app", hardened(block{"ipc_mode": "host"}), drivers.LevelHost, ""},
		"own ipc":               {"app", hardened(block{"ipc_mode": "private"}), drivers.LevelRestricted, ""},
		"ipc for others":        {"app", hardened(block{"ipc_mode": "shareable"}), drivers.LevelHost, ""},
		"host uts":              {"app", hardened(block{"uts_mode": "host"}), drivers.LevelRestricted, ""},
		"host userns":           {"app", hardened(block{"userns_mode": "host"}), drivers.LevelRestricted, ""},
		"host cgroupns":         {"app", hardened(block{"cgroupns": "host"}), drivers.LevelRestricted, `cgroupns = "host"`},
		"seccomp off": {"app", hardened(block{"security_opt": []any{"no-new-privileges", "seccomp=unconfined"}}), drivers.LevelHost,
			"a seccomp profile"},
		"seccomp off, colon": {"app", hardened(block{"security_opt": []any{"no-new-privileges", "seccomp:unconfined"}}), drivers.LevelHost,
			"a seccomp profile"},
		"another profile": {"app", hardened(block{"security_opt": []any{"no-new-privileges", "seccomp=local/all.json"}}),
			drivers.LevelHost, "a seccomp profile"},
		"option by reference": {"app", hardened(block{"security_opt": []any{"no-new-privileges", "${meta.opt}"}}), drivers.LevelHost,
			"a seccomp profile"},
		"apparmor off": {"app", hardened(block{"security_opt": []any{"no-new-privileges", "apparmor=unconfined"}}),
			drivers.LevelRestricted, "apparmor=unconfined"},
		"SELinux off": {"app", hardened(block{"security_opt": []any{"no-new-privileges", "label:disable"}}), drivers.LevelRestricted,
			"label=disable"},
		"own volume":             {"app", hardened(block{"volumes": []any{"local/x:/x", "../alloc/y:/y"}}), drivers.LevelRestricted, ""},
		"host path":              {"app", hardened(block{"volumes": []any{"/etc:/x:ro"}}), drivers.LevelRestricted, ""},
		"host path by dots":      {"app", hardened(block{"volumes": []any{"local/../../../x:/x"}}), drivers.LevelRestricted, ""},
		"host path by reference": {"app", hardened(block{"volumes": []any{"${meta.dir}:/x"}}), drivers.LevelHost, ""},
		"host path as root":      {"0", hardened(block{"volumes": []any{"/srv:/x"}}), drivers.LevelHost, ""},
		"read as root":           {"0", hardened(block{"volumes": []any{"/srv:/x:ro"}}), drivers.LevelBaseline, ""},
		"socket of the daemon":   {"app", hardened(block{"volumes": []any{"/var/run/docker.sock:/x:ro"}}), drivers.LevelHost, ""},
		"all of the node":        {"app", hardened(block{"volumes": []any{"/:/x:ro"}}), drivers.LevelHost, ""},
		"group root by option":   {"app", hardened(block{"group_add": []any{"0"}}), drivers.LevelBaseline, ""},
		"group root by name":     {"app", hardened(block{"group_add": []any{"root"}}), drivers.LevelBaseline, ""},
		"group root, number":     {"app", hardened(block{"group_add": []any{0}}), drivers.LevelBaseline, ""},
		"group root, sign":       {"app", hardened(block{"group_add": []any{"7", "+0"}}), drivers.LevelBaseline, ""},
		"group by reference":     {"app", hardened(block{"group_add": []any{"${meta.group}"}}), drivers.LevelBaseline, ""},
		"groups by reference":    {"app", hardened(block{"group_add": "${meta.groups}"}), drivers.LevelBaseline, ""},
		"an ordinary group":      {"app", hardened(block{"group_add": []any{"7"}}), drivers.LevelRestricted, ""},
		"host path, mount": {"app", hardened(block{"mount": block{"type": "bind", "source": "/etc", "target": "/x"}}),
			drivers.LevelRestricted, ""},
		"host path, mounts": {"app", hardened(block{"mounts": []any{block{"type": "bind", "source": "/etc", "target": "/x"}}}),
			drivers.LevelRestricted, ""},
		"named volume": {"app", hardened(block{"mount": []map[string]any{{"source": "v", "target": "/x"}}}),
			drivers.LevelRestricted, ""},
		"volume with a driver": {"app",
			hardened(block{"mount": []any{block{"source": "v", "target": "/x", "volume_options": block{"driver_config": block{"name": "local"}}}}}),
			drivers.LevelRestricted, ""},
		"volume driver":         {"app", hardened(block{"volumes": []any{"v:/x"}, "volume_driver": "local"}), drivers.LevelRestricted, ""},
		"path by own reference": {"app", hardened(block{"volumes": []any{"${NOMAD_ALLOC_DIR}/x:/x"}}), drivers.LevelRestricted, ""},
		"host network":          {"app", hardened(block{"network_mode": "host"}), drivers.LevelBaseline, ""},
		"tmpfs":                 {"app", hardened(block{"mount": []any{block{"type": "tmpfs", "target": "/x"}}}), drivers.LevelRestricted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := config.Isolates(c.user, c.config); got.Level() != c.level {
				t.Errorf("Isolates() = %+v, level %s, want %s", got, got.Level(), c.level)
			}
			if got := config.NeedsPrivilege(c.config); got != c.power && (c.power == "" || !strings.Contains(got, c.power)) {
				t.Errorf("NeedsPrivilege() = %q, want %q", got, c.power)
			}
		})
	}
	writable := config.Isolates("app", hardened(block{"volumes": []any{"/srv:/x"}}))
	readable := config.Isolates("app", hardened(block{"volumes": []any{"/srv:/x:ro"}}))
	if writable.Files != drivers.FilesGranted || readable.Files != drivers.FilesOwn {
		t.Errorf("files of a writable path %v, of a readable one %v", writable.Files, readable.Files)
	}
}

// The configuration of an instance lowers what it can promise.
func TestInstanceIsolates(t *testing.T) {
	for name, c := range map[string]struct {
		plugin block
		config block
		level  drivers.Level
		files  drivers.FileIsolation
	}{
		"default":           {nil, block{"image": "web:1"}, drivers.LevelBaseline, drivers.FilesOwn},
		"NET_RAW by itself": {block{"allow_caps": []any{"chown", "net_raw"}}, block{"image": "web:1"}, drivers.LevelNone, drivers.FilesOwn},
		"NET_RAW dropped": {block{"allow_caps": []any{"all"}}, block{"image": "web:1", "cap_drop": []any{"net_raw"}}, drivers.LevelBaseline,
			drivers.FilesOwn},
		"links out": {block{"volumes": block{"enabled": true}}, block{"image": "web:1", "volumes": []any{"local/x:/x"}},
			drivers.LevelBaseline, drivers.FilesGranted},
		"the most": {block{"allow_privileged": true}, nil, drivers.LevelRestricted, drivers.FilesOwn},
	} {
		t.Run(name, func(t *testing.T) {
			got := decoded(t, c.plugin).Isolates("", c.config)
			if got.Level() != c.level || got.Files != c.files {
				t.Errorf("Isolates() = %+v, level %s, want %s and %v", got, got.Level(), c.level, c.files)
			}
		})
	}
}

// A mode that allowed_modes has needs no privilege, unlike one that only allow_privileged allows.
func TestInstanceNeedsPrivilege(t *testing.T) {
	for name, c := range map[string]struct {
		plugin block
		config block
		want   string
	}{
		"plain":        {nil, block{"image": "web:1"}, ""},
		"mode":         {block{"allow_privileged": true}, block{"image": "web:1", "pid_mode": "host"}, `pid_mode = "host"`},
		"allowed mode": {block{"allowed_modes": block{"pid": []any{"host"}}}, block{"image": "web:1", "pid_mode": "host"}, ""},
		"another mode": {block{"allowed_modes": block{"ipc": []any{"host"}}}, block{"image": "web:1", "pid_mode": "host"},
			`pid_mode = "host"`},
		"mode of its own":    {block{"allow_privileged": true}, block{"image": "web:1", "ipc_mode": "private"}, ""},
		"privileged":         {block{"allow_privileged": true}, block{"image": "web:1", "privileged": true}, "privileged"},
		"legacy":             {block{"legacy_privileged_behavior": true}, block{"image": "web:1", "privileged": true}, "privileged"},
		"allowed capability": {block{"allow_caps": []any{"net_admin"}}, block{"image": "web:1", "cap_add": []any{"net_admin"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := decoded(t, c.plugin)
			if got := p.NeedsPrivilege(c.config); got != c.want {
				t.Errorf("NeedsPrivilege() = %q, want %q", got, c.want)
			}
			_, on := c.plugin["allow_privileged"]
			if _, legacy := c.plugin["legacy_privileged_behavior"]; p.Privileged != on || p.Legacy != legacy {
				t.Errorf("Privileged = %t, Legacy = %t, want %t and %t", p.Privileged, p.Legacy, on, legacy)
			}
		})
	}
}
