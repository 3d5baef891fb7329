package drivers

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Level is an isolation level of a task: how far it is isolated from its node and from the other tasks
// there. Levels are ordered, and each includes the requirements of those below it (Isolation.Lacks).
type Level int

// The isolation levels.
const (
	LevelNone       Level = iota // no guarantee
	LevelHost                    // no rights to administer the node; it sees the node's files and processes
	LevelBaseline                // its own files and namespaces
	LevelRestricted              // limited, an ordinary user without capabilities, and no way to get more
	LevelStrict                  // a user of its own, and no files of the node that it can write
)

var levels = []string{"none", "host", "baseline", "restricted", "strict"}

// Levels returns the names of the levels, the lowest first.
func Levels() []string { return slices.Clone(levels) }

// String returns the name of the level.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levels) {
		return fmt.Sprintf("level %d", int(l))
	}
	return levels[l]
}

// ParseLevel returns the level with a name.
func ParseLevel(name string) (Level, error) {
	if i := slices.Index(levels, name); i >= 0 {
		return Level(i), nil
	}
	return 0, fmt.Errorf("unknown isolation level %q: use %s", name, strings.Join(levels, ", "))
}

// Isolation lists what isolates a task. The zero value isolates nothing.
type Isolation struct {
	Limits       bool // a control group of its own, with limits
	User         UserIsolation
	PID          bool // a PID namespace of its own
	IPC          bool // an IPC namespace of its own
	Mounts       bool // a mount namespace of its own
	Sockets      bool // it cannot reach abstract Unix sockets of the node
	Files        FileIsolation
	Capabilities CapabilityIsolation
	Seccomp      bool // a filter refuses system calls that tasks do not need
	NoPrivileges bool // set-user-ID programs and file capabilities give nothing (no_new_privs)
	Devices      bool // no devices of the node, other than null, zero, full, random, urandom and tty
}

// UserIsolation is the kind of user that a task has.
type UserIsolation int

// The users of tasks.
const (
	UserRoot   UserIsolation = iota // root of the node, or of a namespace without a user namespace
	UserShared                      // an ordinary user that other tasks may have, too
	UserOwn                         // an ordinary user that only this task has
)

// FileIsolation is the set of files that a task can access.
type FileIsolation int

// The files of tasks.
const (
	FilesNode    FileIsolation = iota // those of the node that its user may access
	FilesGranted                      // its directories or its image, and paths of the node that were granted for writing
	FilesOwn                          // its directories or its image, and files of the node for reading only
)

// CapabilityIsolation is the set of capabilities that a task can have.
type CapabilityIsolation int

// The capabilities of tasks.
const (
	CapabilitiesAny     CapabilityIsolation = iota // some that administer the node
	CapabilitiesDefault                            // at most those of DefaultCapabilities
	CapabilitiesNone                               // at most NET_BIND_SERVICE
)

// DefaultCapabilities are those that administer nothing outside the task's own files and namespaces
// (compat/isolation-prior-art.md, section 1).
func DefaultCapabilities() []string {
	return []string{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID",
		"SETPCAP", "SETUID", "SYS_CHROOT"}
}

// Requirement is a fact that a level needs.
type Requirement struct {
	Level Level
	Name  string // the part of the sandbox, for example "seccomp"
	Text  string // what must hold, for tables and errors
	Holds func(i Isolation) bool
}

// Requirements returns the facts that each level adds to the one below it, the lowest level first.
func Requirements() []Requirement {
	return []Requirement{
		{LevelHost, "capabilities", "no capability that administers the node",
			func(i Isolation) bool { return i.Capabilities >= CapabilitiesDefault }},
		{LevelHost, "devices", "no devices of the node", func(i Isolation) bool { return i.Devices }},
		{LevelBaseline, "filesystem", "its own files, and only those of the node that were granted",
			func(i Isolation) bool { return i.Files >= FilesGranted }},
		{LevelBaseline, "namespaces", "its own mount, PID and IPC namespaces", func(i Isolation) bool { return i.Mounts && i.PID && i.IPC }},
		{LevelBaseline, "seccomp", "a filter of system calls", func(i Isolation) bool { return i.Seccomp }},
		{LevelRestricted, "limits", "a control group of its own, with limits", func(i Isolation) bool { return i.Limits }},
		{LevelRestricted, "sockets", "no abstract Unix sockets of the node", func(i Isolation) bool { return i.Sockets }},
		{LevelRestricted, "user", "an ordinary user", func(i Isolation) bool { return i.User >= UserShared }},
		{LevelRestricted, "capabilities", "no capability but NET_BIND_SERVICE",
			func(i Isolation) bool { return i.Capabilities >= CapabilitiesNone }},
		{LevelRestricted, "privileges", "no new privileges by programs (no_new_privs)", func(i Isolation) bool { return i.NoPrivileges }},
		{LevelStrict, "user", "a user that only this task has", func(i Isolation) bool { return i.User >= UserOwn }},
		{LevelStrict, "filesystem", "no files of the node that it can write", func(i Isolation) bool { return i.Files >= FilesOwn }},
	}
}

// Lacks returns the facts that are missing for a level.
func (i Isolation) Lacks(l Level) (out []Requirement) {
	for _, r := range Requirements() {
		if r.Level <= l && !r.Holds(i) {
			out = append(out, r)
		}
	}
	return out
}

// Level returns the highest level whose facts hold.
func (i Isolation) Level() Level {
	l := LevelNone
	for l < LevelStrict && len(i.Lacks(l+1)) == 0 {
		l++
	}
	return l
}

// Strictest returns an isolation for which every fact holds.
func Strictest() Isolation {
	return Isolation{Limits: true, User: UserOwn, PID: true, IPC: true, Mounts: true, Sockets: true, Files: FilesOwn,
		Capabilities: CapabilitiesNone, Seccomp: true, NoPrivileges: true, Devices: true}
}

// CheckLevel returns an error that names the missing facts if an isolation is below a level.
func (i Isolation) CheckLevel(l Level) error {
	lacks := i.Lacks(l)
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("isolation %q is missing: %s", l, Texts(lacks))
}

// Texts lists requirements for errors and attributes.
func Texts(list []Requirement) string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name+" ("+r.Text+")")
	}
	return strings.Join(out, "; ")
}

// Isolator is implemented by drivers that report how they isolate tasks. A driver without it has
// LevelNone.
type Isolator interface {
	// Isolates returns what isolates a task with this user and this config block on this node. With
	// a nil config, it returns the most that the instance can enforce here.
	//
	// It starts nothing. The result depends only on the kernel, the configuration of the instance and
	// the task. The config is interpolated, except for OwnDirectories.
	Isolates(user string, config map[string]any) (Isolation, error)
}

// OwnDirectories are the references to a task's own directories in its config block. They are not
// interpolated in the config that an Isolator gets.
func OwnDirectories() []string {
	return []string{"NOMAD_TASK_DIR", "NOMAD_ALLOC_DIR", "NOMAD_SECRETS_DIR"}
}

// IsOwn reports whether a path of a config block is in one of the task's own directories: it begins
// with a reference to it and does not leave it.
func IsOwn(path string) bool {
	for _, name := range OwnDirectories() {
		for _, ref := range []string{name, "env." + name, `env["` + name + `"]`} {
			if rest, ok := strings.CutPrefix(path, "${"+ref+"}"); ok {
				return rest == "" || rest[0] == '/' && filepath.IsLocal("."+rest)
			}
		}
	}
	return false
}
