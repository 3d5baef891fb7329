// Package level classifies the sandbox of a node by a level. It uses facts about the restrictions
// of a task that configures nothing. Each level includes all lower ones:
//
//	none        no seccomp filter, or no sandbox at all
//	host        no_new_privs, no capabilities, a seccomp filter
//	baseline    + files restricted by Landlock
//	restricted  + signals and abstract sockets restricted (ABI 6), at least the default
//	              seccomp filter, hard limits by a control group
//	strict      + a uid per task, own PID, mount and IPC namespaces
//
// A single missing condition keeps a node on the level below, whatever else it has: a level is a
// guarantee, not a score. The package is pure; the driver collects the facts.
package level

import (
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/landlock"
)

// Level is the name of a sandbox level.
type Level string

// The levels, weakest first. The names are values of the attribute driver.<name>.level.
const (
	None       Level = "none"
	Host       Level = "host"
	Baseline   Level = "baseline"
	Restricted Level = "restricted"
	Strict     Level = "strict"
)

// Facts are the restrictions of every task of a node.
type Facts struct {
	LandlockABI   int  // 0: not available
	Filter        bool // any seccomp filter
	DefaultFilter bool // a filter that refuses at least what the default profile does
	Limits        bool // a control group with hard limits
	OwnUser       bool // a uid that no other task has
	OwnProcesses  bool // a PID namespace
	OwnMounts     bool // a mount namespace
	OwnIPC        bool // an IPC namespace
}

// need is one condition of a level.
type need struct {
	name string
	met  func(Facts) bool
}

// rung is a level and the conditions that it adds to the ones below.
type rung struct {
	level Level
	needs []need
}

var rungs = []rung{
	{Host, []need{
		{"a seccomp filter", func(f Facts) bool { return f.Filter }},
	}},
	{Baseline, []need{
		{"Landlock", func(f Facts) bool { return f.LandlockABI >= landlock.ABIFiles }},
	}},
	{Restricted, []need{
		{"Landlock ABI " + strconv.Itoa(landlock.ABIScopes), func(f Facts) bool { return f.LandlockABI >= landlock.ABIScopes }},
		{"all that the default seccomp profile refuses", func(f Facts) bool { return f.DefaultFilter }},
		{"control group", func(f Facts) bool { return f.Limits }},
		{"mount namespace", func(f Facts) bool { return f.OwnMounts }},
	}},
	{Strict, []need{
		{"a uid per task", func(f Facts) bool { return f.OwnUser }},
		{"PID namespace", func(f Facts) bool { return f.OwnProcesses }},
		{"IPC namespace", func(f Facts) bool { return f.OwnIPC }},
	}},
}

// Of returns the highest level whose conditions all hold.
func Of(f Facts) Level {
	at := None
	for _, r := range rungs {
		for _, n := range r.needs {
			if !n.met(f) {
				return at
			}
		}
		at = r.level
	}
	return at
}

// Missing lists the conditions that f lacks for Strict, lowest level first.
func (f Facts) Missing() []string {
	var out []string
	for _, r := range rungs {
		for _, n := range r.needs {
			if !n.met(f) {
				out = append(out, n.name)
			}
		}
	}
	return out
}

// Attributes returns the node attributes of a driver's sandbox.
func (f Facts) Attributes(driver string) map[string]string {
	p := "driver." + driver + "."
	out := map[string]string{p + "level": string(Of(f)), p + "landlock.abi": strconv.Itoa(f.LandlockABI)}
	if lacks := f.Missing(); len(lacks) > 0 {
		out[p+"lacks"] = strings.Join(lacks, ", ")
	}
	return out
}
