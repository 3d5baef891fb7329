package chroot

import (
	"github.com/open-nomad/open-nomad/internal/capability"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Isolates returns the most that isolates a task, on a node that lacks nothing (drivers.Kind).
func Isolates(user string, config map[string]any) drivers.Isolation {
	p := DefaultPlugin()
	p.AllowCaps = []string{capability.All}
	i := p.isolation(user, config)
	i.Sockets = true
	return i
}

// isolation returns what isolates a task with these settings.
func (p *Plugin) isolation(user string, config map[string]any) drivers.Isolation {
	i := drivers.Isolation{Limits: true, User: drivers.UserShared, Mounts: true, Files: drivers.FilesOwn, Seccomp: p.Seccomp,
		NoPrivileges: p.NoPrivileges, Devices: !p.Devices, PID: isPrivate(config["pid_mode"], p.PIDMode),
		IPC: isPrivate(config["ipc_mode"], p.IPCMode)}
	if user == "root" || user == "0" {
		i.User = drivers.UserRoot
	}
	add, ok := names(config["cap_add"])
	drop, _ := names(config["cap_drop"]) // what cannot be read drops nothing
	set, err := p.capabilities(add, drop)
	if i.Capabilities = isolationOf(set); err != nil || !ok {
		i.Capabilities = drivers.CapabilitiesAny // the node refuses the task, or knows more
	}
	return i
}

// isPrivate reports whether a mode is private. A value that is not known yet counts as host.
func isPrivate(given any, otherwise string) bool {
	if given == nil || given == "" {
		given = otherwise
	}
	return given == modePrivate
}

// names returns canonical names of a list in a config block, and whether it is a list of strings.
func names(v any) ([]string, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case []string:
		return capability.Canonical(v), true
	case []any:
		var list []string
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			list = append(list, s)
		}
		return capability.Canonical(list), true
	}
	return nil, false
}
