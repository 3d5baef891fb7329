package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Isolates returns what isolates a container with a config on this node. Two options of the plugin block can lower the
// isolation of a task: allow_caps can leave it NET_RAW, and volumes.enabled lets relative paths follow links to files
// of the node.
func (s *Plugin) Isolates(user string, config map[string]any) drivers.Isolation {
	if config == nil {
		return most()
	}
	p := readPowers(config)
	i := p.isolation(user)
	if s.Volumes && p.relative {
		i.Files = drivers.FilesGranted
	}
	for _, name := range daemonCaps {
		given := slices.Contains(s.caps, name) || slices.Contains(s.caps, capAll)
		if given && !slices.Contains(defaultCaps, name) && !slices.Contains(p.capDrop, name) && !slices.Contains(p.capDrop, capAll) {
			i.Capabilities = drivers.CapabilitiesAny
		}
	}
	return i
}

// most returns the most that a container can have: an ordinary user, no capabilities, no new
// privileges, and no host paths but the directories of its allocation.
func most() drivers.Isolation {
	return drivers.Isolation{Limits: true, User: drivers.UserShared, PID: true, IPC: true, Mounts: true, Sockets: true,
		Files:        drivers.FilesOwn,
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
	i.Seccomp = !p.seccomp
	i.Sockets = !p.hostNetwork
	i.NoPrivileges = valueOf(p.security, OptNoNewPrivileges) == "true"
	i.Capabilities = p.capabilities()
	i.Devices = !p.devices && !p.gpus
	return i
}

// powers are the options that lower the isolation of a task.
type powers struct {
	privileged, devices    bool
	gpus                   bool // the runtime adds devices that the image or the environment names
	hostNetwork, rootGroup bool
	reaches                bool // directories through which a container reaches the node
	modes                  map[string]string
	security               []SecurityOption // nil if not readable
	unsafeSecurity         string           // of security_opt, what needs privilege
	seccomp                bool             // the filter may be another than that of the daemon
	capAdd, capDrop        []string
	writable, volumes      bool // paths of the node, and volumes of the daemon
	relative               bool // paths in the allocation's directory
}

// readPowers reads the options as the job has them.
func readPowers(config map[string]any) powers {
	p := powers{privileged: on(config["privileged"]), devices: len(blocksOf(config["devices"])) > 0, modes: map[string]string{},
		capAdd: CapabilityNames(textsOf(config["cap_add"])), capDrop: CapabilityNames(textsOf(config["cap_drop"]))}
	for _, kind := range modeKinds {
		p.modes[kind] = textOf(config[kind+"_mode"])
	}
	p.readSecurity(textsOf(config["security_opt"]))
	p.rootGroup = slices.ContainsFunc(textsOf(config["group_add"]), mayBeRoot)
	runtime := textOf(config["runtime"])
	p.gpus = runtime == NvidiaRuntime || strings.Contains(runtime, drivers.Reference)
	network := textOf(config["network_mode"])
	p.hostNetwork = network == "host" || strings.Contains(network, "${")
	if config["volume_driver"] != nil {
		p.volumes = true
	}
	for _, entry := range textsOf(config["volumes"]) {
		source, readOnly := entry, false
		if v, err := SplitVolume(entry); err == nil {
			source, readOnly = v.Source, v.ReadOnly
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

// readSecurity reads security_opt. If it has an entry that cannot be read, it has none that isolates.
func (p *powers) readSecurity(texts []string) {
	p.unsafeSecurity = unsafeSecurity(texts)
	opts, err := parseSecurity(texts)
	if err != nil {
		p.seccomp = true
		return
	}
	p.security = opts
	filter := valueOf(opts, OptSeccomp)
	p.seccomp = filter != "" && filter != SeccompBuiltin
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
	if mayBeRoot(user) {
		return drivers.UserRoot
	}
	return drivers.UserShared
}

// reachesNode reports whether a path of the node may have sockets of its services, such as that of the
// daemon, or the kernel's files. Even a mount for reading gives access to these.
func reachesNode(source string) bool {
	for _, dir := range []string{"/run", "/var/run", "/dev", "/proc", "/sys"} {
		if source == "/" || source == "/var" || safefs.Within(source, dir) || strings.HasPrefix(source, "${") {
			return true
		}
	}
	return false
}

// ownMode reports whether a mode gives a namespace of its own.
func ownMode(mode string) bool { return mode == "" || mode == "private" || mode == "none" }

// NeedsPrivilege returns the option of a config that needs privileged = true in the task, or "". These
// are the options that give rights over the node and that no other option of the plugin block allows
// (answers). A value with a reference counts as the worst case.
func NeedsPrivilege(config map[string]any) string {
	p := readPowers(config)
	for _, a := range answers {
		if a.needs == nil {
			continue
		}
		if why := a.needs(&p, config); why != "" {
			return why
		}
	}
	return ""
}

// NeedsPrivilege is NeedsPrivilege for this instance. Namespace modes that are not in allowed_modes also
// need privilege.
func (s *Plugin) NeedsPrivilege(config map[string]any) string {
	for _, kind := range modeKinds {
		if mode := textOf(config[kind+"_mode"]); !ownMode(mode) && validMode(kind, mode) && !s.modeAllowed(kind, mode) {
			return fmt.Sprintf("%s_mode = %q", kind, mode)
		}
	}
	return NeedsPrivilege(config)
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

// textsOf returns the strings of a list of a job. A reference stands for a list with itself.
func textsOf(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case []any:
		for _, e := range v {
			switch e := e.(type) {
			case nil, map[string]any, []any:
			default: // numbers are strings to the daemon: group_add = [0]
				out = append(out, fmt.Sprint(e))
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
	case map[string]string:
		m := map[string]any{}
		for name, value := range v {
			m[name] = value
		}
		return []map[string]any{m}
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
