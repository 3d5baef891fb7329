package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// modeKinds are the kinds of namespaces whose mode a task can choose.
var modeKinds = []string{"pid", "ipc", "userns", "uts"}

// ContainerMode begins the mode of a namespace of another container.
const ContainerMode = "container:"

// validMode reports whether the daemon has a mode for a kind of namespace.
func validMode(kind, mode string) bool {
	other := strings.HasPrefix(mode, ContainerMode) && len(mode) > len(ContainerMode)
	switch kind {
	case "pid":
		return mode == "host" || other
	case "ipc":
		return slices.Contains([]string{"none", "private", "host", "shareable"}, mode) || other
	}
	return mode == "host"
}

// checkModes checks allowed_modes.
func (s *Plugin) checkModes() error {
	for _, kind := range modeKinds {
		for _, glob := range s.modes[kind] {
			if _, err := path.Match(glob, ""); err != nil || !validMode(kind, glob) {
				return fmt.Errorf("cannot apply allowed_modes configuration, %q is not a valid %s_mode", glob, kind)
			}
		}
	}
	return nil
}

// AllowMode refuses a mode that neither allow_privileged nor allowed_modes allows.
func (s *Plugin) AllowMode(kind, mode string) error {
	if mode == "" {
		return nil
	}
	if !validMode(kind, mode) {
		return fmt.Errorf("%q is not a valid %s_mode", mode, kind)
	}
	if s.Privileged || s.modeAllowed(kind, mode) {
		return nil
	}
	return fmt.Errorf("cannot apply %q configuration: %q needs allow_privileged or allowed_modes in the plugin config of the driver",
		kind+"_mode", mode)
}

// modeAllowed reports whether allowed_modes has a mode.
func (s *Plugin) modeAllowed(kind, mode string) bool {
	return matchesAny(s.modes[kind], mode)
}

// matchesAny reports whether a pattern, which is valid, matches a name.
func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, _ := path.Match(glob, name) // the pattern is valid
		return ok
	})
}
