package docker

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Isolates implements drivers.Isolator. Two options of the instance can lower the isolation of a task:
// allow_caps can leave it NET_RAW, and volumes.enabled lets relative paths follow links to files of
// the node.
func (d *Driver) Isolates(user string, config map[string]any) (drivers.Isolation, error) {
	if config == nil {
		return most(), nil
	}
	p := readPowers(config)
	i := p.isolation(user)
	if d.set.volumes && p.relative {
		i.Files = drivers.FilesGranted
	}
	for _, name := range daemonCaps {
		given := slices.Contains(d.set.caps, name) || slices.Contains(d.set.caps, capAll)
		if given && !slices.Contains(defaultCaps, name) && !slices.Contains(p.capDrop, name) && !slices.Contains(p.capDrop, capAll) {
			i.Capabilities = drivers.CapabilitiesAny
		}
	}
	return i, nil
}

// most returns the most that a container can have: an ordinary user, no capabilities, no new
// privileges, and no host paths but the directories of its allocation.
func most() drivers.Isolation {
	return drivers.Isolation{Limits: true, User: drivers.UserShared, PID: true, IPC: true, Mounts: true, Sockets: true, Files: drivers.FilesOwn,
		Capabilities: drivers.CapabilitiesNone, Seccomp: true, NoPrivileges: true, Devices: true}
}

// Isolates returns what isolates a container with a config on a node that lacks nothing. What cannot be
// read from the config, such as the user of the image or the value of a reference, counts as the worst
// case.
func Isolates(user string, config map[string]any) drivers.Isolation {
	if config == nil {
		return most()
	}
	p := readPowers(config)
	return p.isolation(user)
}

// isolation returns what isolates a container with these options.
func (p *powers) isolation(user string) drivers.Isolation {
	i := drivers.Isolation{Limits: true, Mounts: true, PID: ownMode(p.modes["pid"]), IPC: ownMode(p.modes["ipc"])}
	if p.privileged {
		return i
	}
	if i.User = userOf(user); p.rootGroup {
		i.User = drivers.UserRoot
	}
	i.Files = p.files()
	if p.reaches || p.writable && i.User == drivers.UserRoot {
		i.Files = drivers.FilesNode
	}
	i.Seccomp = !p.otherFilter()
	i.Sockets = !p.hostNetwork
	i.NoPrivileges = hasOption(p.securityOpt, "no-new-privileges", "")
	i.Capabilities = p.capabilities()
	i.Devices = !p.devices
	return i
}

// powers are the options that lower the isolation of a task.
type powers struct {
	privileged, devices    bool
	hostNetwork, rootGroup bool
	reaches                bool // directories through which a container reaches the node
	modes                  map[string]string
	securityOpt            []string
	capAdd, capDrop        []string
	writable, volumes      bool // paths of the node, and volumes of the daemon
	relative               bool // paths in the allocation's directory
}

// readPowers reads the options as the job has them.
func readPowers(config map[string]any) powers {
	p := powers{privileged: on(config["privileged"]), devices: len(blocksOf(config["devices"])) > 0, modes: map[string]string{},
		securityOpt: textsOf(config["security_opt"]), capAdd: capNames(textsOf(config["cap_add"])), capDrop: capNames(textsOf(config["cap_drop"]))}
	for _, kind := range modeKinds {
		p.modes[kind] = textOf(config[kind+"_mode"])
	}
	p.rootGroup = slices.ContainsFunc(textsOf(config["group_add"]), func(g string) bool { return isRoot(g) || strings.Contains(g, "${") })
	network := textOf(config["network_mode"])
	p.hostNetwork = network == "host" || strings.Contains(network, "${")
	if config["volume_driver"] != nil {
		p.volumes = true
	}
	for _, entry := range textsOf(config["volumes"]) {
		source, readOnly := entry, false
		if v, err := splitVolume(entry); err == nil {
			source, readOnly = v.source, v.readOnly
		}
		p.mount(source, readOnly)
	}
	for _, b := range append(blocksOf(config["mount"]), blocksOf(config["mounts"])...) {
		switch kind := textOf(b["type"]); kind {
		case "tmpfs":
		case "", "volume":
			p.volumes = true
		default: // also a reference
			p.mount(textOf(b["source"]), on(b["readonly"]) && textOf(b["readonly"]) == "")
		}
	}
	return p
}

// mount notes a path of the host. One that is relative to the task's directory stays in that of the
// allocation, or needs volumes to be enabled.
func (p *powers) mount(source string, readOnly bool) {
	if drivers.IsOwn(source) {
		p.relative = true
		return
	}
	source = path.Clean(source)
	if !path.IsAbs(source) && !strings.HasPrefix(source, "${") && source != "../.." && !strings.HasPrefix(source, "../../") {
		p.relative = true
		return
	}
	p.reaches = p.reaches || reachesNode(source)
	p.writable = p.writable || !readOnly
}

// files returns which files of the node the task can reach.
func (p *powers) files() drivers.FileIsolation {
	if p.writable || p.volumes {
		return drivers.FilesGranted
	}
	return drivers.FilesOwn
}

// otherFilter reports whether the filter of system calls may be another than that of the daemon.
func (p *powers) otherFilter() bool {
	return slices.ContainsFunc(p.securityOpt, func(opt string) bool {
		key, given, _ := strings.Cut(strings.Replace(opt, ":", "=", 1), "=")
		return key == "seccomp" && given != "builtin" || strings.Contains(key, "${")
	})
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
func userOf(user string) drivers.UserIsolation {
	name, group, _ := strings.Cut(user, ":")
	if name == "" || isRoot(name) || isRoot(group) || strings.Contains(user, "${") {
		return drivers.UserRoot
	}
	return drivers.UserShared
}

// isRoot reports whether a user or a group is that of root.
func isRoot(id string) bool { return id == "root" || id != "" && strings.Trim(id, "0") == "" }

// reachesNode reports whether a path of the node may have sockets of its services, such as that of the
// daemon, or the kernel's files. Even a mount for reading gives access to these.
func reachesNode(source string) bool {
	for _, dir := range []string{"/run", "/var/run", "/dev", "/proc", "/sys"} {
		if source == "/" || source == "/var" || source == dir || strings.HasPrefix(source, dir+"/") || strings.HasPrefix(source, "${") {
			return true
		}
	}
	return false
}

// ownMode reports whether a mode gives a namespace of its own.
func ownMode(mode string) bool { return mode == "" || mode == "private" || mode == "none" }

// hasOption reports whether security_opt has an option. Without a value, the option raises the isolation,
// and a reference does not count as it. With a value, it lowers the isolation, and a reference counts.
func hasOption(opts []string, name, value string) bool {
	for _, opt := range opts {
		key, given, _ := strings.Cut(strings.Replace(opt, ":", "=", 1), "=")
		switch {
		case value == "":
			if key == name && given != "false" && !strings.Contains(given, "${") {
				return true
			}
		case strings.Contains(key, "${"), key == name && (given == value || strings.Contains(given, "${")):
			return true
		}
	}
	return false
}

// NeedsPrivilege returns the option of a config that needs privileged = true in the task, or "". These
// are the options that give rights over the node and that no other option of the plugin block allows.
// Capabilities, namespace modes and paths of the node have their own options there. A value with a
// reference counts as the worst case.
func NeedsPrivilege(config map[string]any) string {
	p := readPowers(config)
	switch {
	case p.privileged:
		return "privileged"
	case p.devices:
		return "devices"
	case p.otherFilter():
		return "a seccomp profile in security_opt"
	case !ownMode(textOf(config["cgroupns"])):
		return fmt.Sprintf("cgroupns = %q", textOf(config["cgroupns"]))
	}
	for _, opt := range [][2]string{{"apparmor", "unconfined"}, {"systempaths", "unconfined"}, {"label", "disable"}} {
		if hasOption(p.securityOpt, opt[0], opt[1]) {
			return fmt.Sprintf("security_opt = [\"%s=%s\"]", opt[0], opt[1])
		}
	}
	return ""
}

// needsPrivilege is NeedsPrivilege for this instance. Namespace modes that are not in allowed_modes also
// need privilege.
func (s *settings) needsPrivilege(config map[string]any) string {
	for _, kind := range modeKinds {
		if mode := textOf(config[kind+"_mode"]); !ownMode(mode) && validMode(kind, mode) && !s.modeAllowed(kind, mode) {
			return fmt.Sprintf("%s_mode = %q", kind, mode)
		}
	}
	return NeedsPrivilege(config)
}

// Privilege implements drivers.Privileger.
func (d *Driver) Privilege() drivers.Privilege {
	return drivers.Privilege{Offered: d.set.privileged, Needs: d.set.needsPrivilege}
}

// textOf returns a string of a job, "" for anything else.
func textOf(v any) string {
	s, _ := v.(string)
	return s
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
