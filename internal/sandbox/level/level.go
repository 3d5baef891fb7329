// Package level says in one word how closed the sandbox of a node is, from facts
// about what is really put on a task that asks for nothing. Each level has all of
// the one before it:
//
//	none        no filter of system calls, or no sandbox at all
//	host        no_new_privs, no capabilities, a seccomp filter
//	baseline    + files held by Landlock
//	restricted  + signals and abstract sockets held (ABI 6), all that the default
//	              filter refuses, hard limits by a control group
//	strict      + a uid of its own, own PID, mount and IPC namespaces
//
// One thing that lacks keeps a node on the level below, however much else it has:
// a level is a promise, not a score. Pure values; the driver finds the facts.
package level

import (
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/landlock"
)

// Level is how closed the sandbox is.
type Level string

// The levels, weakest first. The names are those of the attribute driver.exec2.level.
const (
	None       Level = "none"
	Host       Level = "host"
	Baseline   Level = "baseline"
	Restricted Level = "restricted"
	Strict     Level = "strict"
)

// Facts are what is put on every task of a node.
type Facts struct {
	LandlockABI   int  // 0: the kernel has none
	Filter        bool // a seccomp filter, whatever it refuses
	DefaultFilter bool // one that refuses at least what the default profile does
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

// rung is a level and what it asks for beyond the ones below.
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

// Of returns the highest level of which nothing lacks.
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

// Lacks lists what keeps f from being Strict, the most basic first.
func (f Facts) Lacks() []string {
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

// Attributes are what a node tells of its sandbox, as attributes of a driver.
func (f Facts) Attributes(driver string) map[string]string {
	p := "driver." + driver + "."
	out := map[string]string{p + "level": string(Of(f)), p + "landlock.abi": strconv.Itoa(f.LandlockABI)}
	if lacks := f.Lacks(); len(lacks) > 0 {
		out[p+"lacks"] = strings.Join(lacks, ", ")
	}
	return out
}
