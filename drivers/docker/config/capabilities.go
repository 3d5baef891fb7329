package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/open-nomad/open-nomad/internal/capability"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// capAll stands for all capabilities.
const capAll = capability.All

// defaultCaps are those that tasks may have by default.
var defaultCaps = drivers.DefaultCapabilities()

// daemonCaps are those that the daemon gives a container by default.
var daemonCaps = append(drivers.DefaultCapabilities(), "NET_RAW")

// allCaps are the names of all capabilities.
var allCaps = capability.Names()

// CapabilityNames returns the canonical names of capabilities: upper case, without CAP_.
func CapabilityNames(given []string) []string { return capability.Canonical(given) }

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
func CapabilityBit(name string) uint64 { return capability.Bit(name) }

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
