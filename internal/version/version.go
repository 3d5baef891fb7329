// Package version says which program this is. The number is the protocol
// version of the field that it speaks; peers gate features on it
// (compat/wire.md section 13).
package version

import "runtime/debug"

// Number is the version that nodes and servers advertise.
const Number = "2.0.6"

// Revision is the commit, set by the linker (-X); a plain go build takes it
// from the build information.
var Revision string

// Commit returns the revision the program was built from, empty when unknown.
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

// Human is what the version command prints first.
func Human() string { return "Nomad v" + Number + " (open-nomad)" }
