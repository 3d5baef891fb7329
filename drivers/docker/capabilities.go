package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// capAll stands for all capabilities.
const capAll = "ALL"

// defaultCaps are those that tasks may have by default.
var defaultCaps = drivers.DefaultCapabilities()

// daemonCaps are those that the daemon gives a container by default.
var daemonCaps = append(drivers.DefaultCapabilities(), "NET_RAW")

// allCaps are the capabilities of Linux, without CAP_.
var allCaps = []string{
	"AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH",
	"FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT",
	"SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM",
}

// capNames returns the canonical names of capabilities: upper case, without CAP_.
func capNames(given []string) []string {
	out := []string{}
	for _, name := range given {
		out = append(out, strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "CAP_"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// capsOf returns what to add to and drop from the daemon's capabilities.
func (s *settings) capsOf(add, drop []string) (added, dropped []string, err error) {
	add, drop = capNames(add), capNames(drop)
	for _, name := range slices.Concat(add, drop) {
		if name != capAll && !slices.Contains(allCaps, name) {
			return nil, nil, fmt.Errorf("unknown capability %q", strings.ToLower(name))
		}
	}
	allowed := func(name string) bool { return slices.Contains(s.caps, capAll) || slices.Contains(s.caps, name) }
	wanted := add
	if slices.Contains(add, capAll) {
		wanted = allCaps
	}
	var refused []string
	for _, name := range wanted {
		if !allowed(name) {
			refused = append(refused, strings.ToLower(name))
		}
	}
	if len(refused) > 0 {
		return nil, nil, fmt.Errorf("driver does not allow the following capabilities: %s", strings.Join(refused, ", "))
	}
	if slices.Contains(drop, capAll) {
		return lower(add), []string{"all"}, nil
	}
	for _, name := range daemonCaps {
		if !allowed(name) {
			drop = append(drop, name)
		}
	}
	slices.Sort(drop)
	if slices.Contains(add, capAll) {
		return []string{"all"}, lower(slices.Compact(drop)), nil
	}
	return lower(add), lower(slices.Compact(drop)), nil
}

func lower(names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, strings.ToLower(name))
	}
	return out
}
