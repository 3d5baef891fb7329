package chroot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/capability"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// overriding are the capabilities that give access to files of other owners, directly or by a change of the user.
var overriding = capability.Set([]string{"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "SETFCAP",
	"SETGID", "SETPCAP", "SETUID", "SYS_ADMIN", "SYS_PTRACE"})

// unsupported returns the names that this kernel does not have, in lower case.
func unsupported(names []string) (out []string) {
	have := capability.Supported()
	for _, name := range names {
		if name != capability.All && !slices.Contains(have, name) {
			out = append(out, strings.ToLower(name))
		}
	}
	return out
}

// expand replaces All by the capabilities that this kernel has.
func expand(names []string) []string {
	if slices.Contains(names, capability.All) {
		return capability.Supported()
	}
	return names
}

// capabilities returns the set of a task: the default ones that the operator allows, without cap_drop, and with
// cap_add, which the operator must allow.
func (p *Plugin) capabilities(add, drop []string) (uint64, error) {
	allowed, add, drop := expand(p.AllowCaps), expand(add), expand(drop)
	var refused []string
	for _, name := range add {
		if !slices.Contains(allowed, name) {
			refused = append(refused, strings.ToLower(name))
		}
	}
	if len(refused) > 0 {
		return 0, fmt.Errorf("driver does not allow the following capabilities: %s", strings.Join(refused, ", "))
	}
	set := capability.Set(drivers.DefaultCapabilities()) & capability.Set(allowed)
	return set&^capability.Set(drop) | capability.Set(add), nil
}

// isolationOf returns what a set can do.
func isolationOf(set uint64) drivers.CapabilityIsolation {
	switch {
	case set&^capability.Bit("NET_BIND_SERVICE") == 0:
		return drivers.CapabilitiesNone
	case set&^capability.Set(drivers.DefaultCapabilities()) == 0:
		return drivers.CapabilitiesDefault
	}
	return drivers.CapabilitiesAny
}
