package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/mount"
)

// Volume is an entry of volumes.
type Volume struct {
	Source, Target string
	Modes          string // its modes
	ReadOnly       bool
	NoCopy         bool
	Propagation    mount.Propagation
	Label          string // of SELinux
}

// SplitVolume splits an entry of the form source:target[:modes]. An unknown mode is an error.
func SplitVolume(entry string) (Volume, error) {
	parts := strings.Split(entry, ":")
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return Volume{}, fmt.Errorf("invalid docker volume %q: not <src>:<destination> format", entry)
	}
	v := Volume{Source: parts[0], Target: parts[1]}
	if len(parts) < 3 || parts[2] == "" {
		return v, nil
	}
	v.Modes = parts[2]
	kinds := map[string]bool{}
	for mode := range strings.SplitSeq(v.Modes, ",") {
		kind := v.set(mode)
		if kind == "" {
			return v, fmt.Errorf("invalid docker volume %q: unknown mode %q: use ro, rw, z, Z, nocopy, or a propagation such as rslave", entry, mode)
		}
		if kinds[kind] {
			return v, fmt.Errorf("invalid docker volume %q: more than one mode for its %s", entry, kind)
		}
		kinds[kind] = true
	}
	return v, nil
}

// set applies a mode, and returns what the mode is about, "" for an unknown one.
func (v *Volume) set(mode string) string {
	switch {
	case mode == "ro", mode == "rw":
		v.ReadOnly = mode == "ro"
		return "access"
	case mode == "z", mode == "Z":
		v.Label = mode
		return "SELinux label"
	case mode == "nocopy":
		v.NoCopy = true
		return "copy"
	case slices.Contains([]string{"consistent", "cached", "delegated"}, mode): // of other systems than Linux
		return "consistency"
	case slices.Contains(mount.Propagations, mount.Propagation(mode)):
		v.Propagation = mount.Propagation(mode)
		return "propagation"
	}
	return ""
}
