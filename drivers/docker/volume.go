package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/mount"
)

// volume is an entry of volumes.
type volume struct {
	source, target string
	text           string // its modes
	readOnly       bool
	noCopy         bool
	propagation    mount.Propagation
	label          string // of SELinux
}

// splitVolume splits an entry of the form source:target[:modes]. An unknown mode is an error.
func splitVolume(entry string) (volume, error) {
	parts := strings.Split(entry, ":")
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return volume{}, fmt.Errorf("invalid docker volume %q: not <src>:<destination> format", entry)
	}
	v := volume{source: parts[0], target: parts[1]}
	if len(parts) < 3 || parts[2] == "" {
		return v, nil
	}
	v.text = parts[2]
	kinds := map[string]bool{}
	for mode := range strings.SplitSeq(v.text, ",") {
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
func (v *volume) set(mode string) string {
	switch {
	case mode == "ro", mode == "rw":
		v.readOnly = mode == "ro"
		return "access"
	case mode == "z", mode == "Z":
		v.label = mode
		return "SELinux label"
	case mode == "nocopy":
		v.noCopy = true
		return "copy"
	case slices.Contains([]string{"consistent", "cached", "delegated"}, mode): // of other systems than Linux
		return "consistency"
	case slices.Contains(mount.Propagations, mount.Propagation(mode)):
		v.propagation = mount.Propagation(mode)
		return "propagation"
	}
	return ""
}
