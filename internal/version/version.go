// Package version names the version of the program. Number is the protocol version that it
// implements, on which peers gate features.
package version

import "runtime/debug"

// Number is the version that nodes and servers advertise.
const Number = "2.0.6"

// Revision is the commit, set by the linker (-X). Without it, Commit reads the build information.
var Revision string

// Commit returns the commit that the program was built from, or "" if unknown.
func Commit() string {
	if Revision != "" {
		return Revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// Human returns the first line of the version command.
func Human() string { return "Nomad v" + Number + " (open-nomad)" }
