package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// capAll stands for all capabilities.
const capAll = "ALL"

// defaultCaps are those that tasks may have by default.
var defaultCaps = drivers.DefaultCapabilities()

// daemonCaps are those that the daemon gives a container by default.
var daemonCaps = append(drivers.DefaultCapabilities(), "NET_RAW")

// capNumbers are the capabilities of Linux, without CAP_.
var capNumbers = map[string]uint{
	"AUDIT_CONTROL": unix.CAP_AUDIT_CONTROL, "AUDIT_READ": unix.CAP_AUDIT_READ, "AUDIT_WRITE": unix.CAP_AUDIT_WRITE,
	"BLOCK_SUSPEND": unix.CAP_BLOCK_SUSPEND, "BPF": unix.CAP_BPF, "CHECKPOINT_RESTORE": unix.CAP_CHECKPOINT_RESTORE,
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH,
	"FOWNER": unix.CAP_FOWNER, "FSETID": unix.CAP_FSETID, "IPC_LOCK": unix.CAP_IPC_LOCK,
	"IPC_OWNER": unix.CAP_IPC_OWNER, "KILL": unix.CAP_KILL, "LEASE": unix.CAP_LEASE,
	"LINUX_IMMUTABLE": unix.CAP_LINUX_IMMUTABLE, "MAC_ADMIN": unix.CAP_MAC_ADMIN, "MAC_OVERRIDE": unix.CAP_MAC_OVERRIDE,
	"MKNOD": unix.CAP_MKNOD, "NET_ADMIN": unix.CAP_NET_ADMIN, "NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"NET_BROADCAST": unix.CAP_NET_BROADCAST, "NET_RAW": unix.CAP_NET_RAW, "PERFMON": unix.CAP_PERFMON,
	"SETFCAP": unix.CAP_SETFCAP, "SETGID": unix.CAP_SETGID, "SETPCAP": unix.CAP_SETPCAP,
	"SETUID": unix.CAP_SETUID, "SYSLOG": unix.CAP_SYSLOG, "SYS_ADMIN": unix.CAP_SYS_ADMIN,
	"SYS_BOOT": unix.CAP_SYS_BOOT, "SYS_CHROOT": unix.CAP_SYS_CHROOT, "SYS_MODULE": unix.CAP_SYS_MODULE,
	"SYS_NICE": unix.CAP_SYS_NICE, "SYS_PACCT": unix.CAP_SYS_PACCT, "SYS_PTRACE": unix.CAP_SYS_PTRACE,
	"SYS_RAWIO": unix.CAP_SYS_RAWIO, "SYS_RESOURCE": unix.CAP_SYS_RESOURCE, "SYS_TIME": unix.CAP_SYS_TIME,
	"SYS_TTY_CONFIG": unix.CAP_SYS_TTY_CONFIG, "WAKE_ALARM": unix.CAP_WAKE_ALARM,
}

// allCaps are their names.
var allCaps = slices.Sorted(maps.Keys(capNumbers))

// CapabilityNames returns the canonical names of capabilities: upper case, without CAP_.
func CapabilityNames(given []string) []string {
	out := []string{}
	for _, name := range given {
		out = append(out, strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "CAP_"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Capabilities returns what to add to and drop from the daemon's capabilities.
func (s *Plugin) Capabilities(add, drop []string) (added, dropped []string, err error) {
	add, drop = CapabilityNames(add), CapabilityNames(drop)
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

// CapabilityBit returns the bit of a capability in a set of the kernel.
func CapabilityBit(name string) uint64 { return 1 << capNumbers[name] }

// CapabilitySet returns the capabilities that a container with these options has at most.
func CapabilitySet(host *container.HostConfig) (set uint64) {
	if host.Privileged {
		return ^uint64(0)
	}
	add, drop := CapabilityNames(host.CapAdd), CapabilityNames(host.CapDrop)
	have := daemonCaps
	switch {
	case slices.Contains(drop, capAll):
		have, drop = nil, nil
		if slices.Contains(add, capAll) {
			return ^uint64(0)
		}
	case slices.Contains(add, capAll):
		have, add = allCaps, nil
	}
	for _, name := range slices.Concat(have, add) {
		set |= CapabilityBit(name)
	}
	for _, name := range drop {
		set &^= CapabilityBit(name)
	}
	return set
}
