package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Isolates implements drivers.Isolator.
func (d *Driver) Isolates(user string, config map[string]any) (drivers.Isolation, error) {
	if config == nil {
		return most(), nil
	}
	i := Isolates(user, config)
	return i, nil
}

// most returns the most that a container can have: an ordinary user of its own, no capabilities, no
// new privileges, and no host paths but the directories of its allocation.
func most() drivers.Isolation {
	return drivers.Isolation{Limits: true, User: drivers.UserShared, PID: true, IPC: true, Mounts: true, Files: drivers.FilesOwn,
		Capabilities: drivers.CapabilitiesNone, Seccomp: true, NoPrivileges: true, Devices: true}
}

// Isolates returns what isolates a container with a config on a node that lacks nothing. What cannot be
// read from the config, such as the user of the image or the value of a reference, counts as the worst
// case.
func Isolates(user string, config map[string]any) drivers.Isolation {
	o := readPowers(config)
	if o.privileged {
		return drivers.Isolation{Limits: true, PID: o.modes["pid"] == "", IPC: o.modes["ipc"] == "", Mounts: true, User: drivers.UserRoot}
	}
	i := most()
	i.PID, i.IPC = ownMode(o.modes["pid"]), ownMode(o.modes["ipc"])
	i.User = userOf(user, o)
	i.Files = o.files()
	i.Seccomp = !hasOption(o.securityOpt, "seccomp", "unconfined")
	i.NoPrivileges = hasOption(o.securityOpt, "no-new-privileges", "")
	i.Capabilities = o.capabilities()
	i.Devices = !o.devices
	return i
}

// powers are the options that lower the isolation of a task.
type powers struct {
	privileged, devices     bool
	modes                   map[string]string
	securityOpt             []string
	capAdd, capDrop         []string
	bind, writable, volumes bool
	groups                  bool
}

// readPowers reads the options as the job has them.
func readPowers(config map[string]any) powers {
	p := powers{privileged: on(config["privileged"]), devices: len(blocksOf(config["devices"])) > 0, modes: map[string]string{},
		securityOpt: textsOf(config["security_opt"]), capAdd: capNames(textsOf(config["cap_add"])), capDrop: capNames(textsOf(config["cap_drop"])),
		groups: len(textsOf(config["group_add"])) > 0}
	for _, kind := range modeKinds {
		p.modes[kind], _ = config[kind+"_mode"].(string)
	}
	if config["volume_driver"] != nil {
		p.volumes = true
	}
	for _, entry := range textsOf(config["volumes"]) {
		source, mode := entry, ""
		if v, err := splitVolume(entry); err == nil {
			source, mode = v.source, v.mode
		}
		p.mount(source, slices.Contains(strings.Split(mode, ","), "ro"))
	}
	for _, b := range append(blocksOf(config["mount"]), blocksOf(config["mounts"])...) {
		kind, _ := b["type"].(string)
		source, _ := b["source"].(string)
		switch kind {
		case "bind":
			p.mount(source, on(b["readonly"]))
		case "tmpfs":
		default: // the default is a volume
			p.volumes = true
		}
	}
	return p
}

// mount notes a path of the host. A relative path stays in the allocation's directory, or needs volumes
// to be enabled.
func (p *powers) mount(source string, readOnly bool) {
	if !strings.HasPrefix(source, "/") && !strings.Contains(source, "..") && !strings.Contains(source, "${") {
		return
	}
	p.bind = true
	p.writable = p.writable || !readOnly
}

// files returns which files of the node the task can reach.
func (p *powers) files() drivers.FileIsolation {
	switch {
	case p.writable, p.volumes:
		return drivers.FilesGranted
	case p.bind:
		return drivers.FilesOwn
	}
	return drivers.FilesOwn
}

// capabilities returns which capabilities the task can have.
func (p *powers) capabilities() drivers.CapabilityIsolation {
	have := []string{}
	if !slices.Contains(p.capDrop, capAll) {
		for _, name := range defaultCaps {
			if !slices.Contains(p.capDrop, name) {
				have = append(have, name)
			}
		}
	}
	level := drivers.CapabilitiesNone
	for _, name := range append(have, p.capAdd...) {
		switch {
		case name == "NET_BIND_SERVICE":
		case slices.Contains(defaultCaps, name):
			level = min(level, drivers.CapabilitiesDefault)
		default:
			return drivers.CapabilitiesAny
		}
	}
	return level
}

// userOf returns the user of a task. Without one it is that of the image, which may be root.
func userOf(user string, p powers) drivers.UserIsolation {
	name, group, _ := strings.Cut(user, ":")
	if name == "" || name == "root" || strings.Trim(name, "0") == "" || group == "root" || group != "" && strings.Trim(group, "0") == "" || strings.Contains(user, "${") || p.modes["userns"] == "host" && name == "" {
		return drivers.UserRoot
	}
	return drivers.UserShared
}

// ownMode reports whether a mode gives a namespace of its own.
func ownMode(mode string) bool { return mode == "" || mode == "private" || mode == "none" }

// hasOption reports whether security_opt has an option with a value.
func hasOption(opts []string, name, value string) bool {
	for _, opt := range opts {
		key, given, _ := strings.Cut(strings.ReplaceAll(opt, ":", "="), "=")
		if key == name && (value == "" && given != "false" || value != "" && (given == value || strings.Contains(given, "${"))) {
			return true
		}
	}
	return false
}

// NeedsPrivilege returns what in a config needs the task's privileged = true, "" for nothing: what gives
// rights over the node or over other tasks.
func NeedsPrivilege(config map[string]any) string {
	p := readPowers(config)
	if p.privileged {
		return "privileged"
	}
	for _, kind := range modeKinds {
		if mode := p.modes[kind]; mode != "" && !ownMode(mode) && mode != "shareable" {
			return fmt.Sprintf("%s_mode = %q", kind, mode)
		}
	}
	for _, name := range p.capAdd {
		if !slices.Contains(daemonCaps, name) {
			return fmt.Sprintf("cap_add = [%q]", strings.ToLower(name))
		}
	}
	for _, profile := range []string{"seccomp", "apparmor", "systempaths"} {
		if hasOption(p.securityOpt, profile, "unconfined") {
			return fmt.Sprintf("security_opt = [\"%s=unconfined\"]", profile)
		}
	}
	switch {
	case p.devices:
		return "devices"
	case config["cgroupns"] == "host":
		return "cgroupns = \"host\""
	}
	return ""
}

// on reports whether a value of a job is true, or may be.
func on(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return v != "" && !strings.EqualFold(v, "false") && v != "0"
	}
	return v != nil
}

// textsOf returns the strings of a list of a job.
func textsOf(v any) (out []string) {
	switch v := v.(type) {
	case []string:
		return v
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// blocksOf returns the blocks of a job, which are one map or a list of them.
func blocksOf(v any) (out []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []map[string]any:
		return v
	case []any:
		for _, e := range v {
			if m, ok := e.(map[string]any); ok {
				out = append(out, m)
			}
		}
	}
	return out
}
