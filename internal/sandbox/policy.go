// Package sandbox runs one program under a Policy. The policy is a plain, printable value that is
// made elsewhere and does not change while it is applied.
//
// The starter writes the policy to a memfd (wire.go). It is the supervisor for a task
// (internal/supervise), and the agent for a Command next to a task (run.go). It executes the companion
// as "nomad-sandbox", with the control groups' files as arguments (internal/launch). That
// stage applies the policy to itself, in this order, and then executes the program in its own place,
// so that no helper process remains. With PrivatePID it is process 2 of a namespace whose process 1 is
// that of internal/tinyinit:
//
//	join the control group → oom score → network, IPC and mount namespaces
//	→ hidden directories → view → binds → private /tmp → fresh /proc, or binds → root directory
//	→ open the granted paths
//	→ working directory → close every descriptor but 0–2 (at execve)
//	→ groups, uid, all five capability sets → no_new_privs
//	→ Landlock (all rights and scopes of the kernel) → rlimits → seccomp → execve
//
// It fails closed: a layer of the policy that cannot be applied is an error. The error goes to the
// starter over a pipe that execve closes; end of file means that the program runs. The program's
// environment is data to the stage and becomes an environment at the execve. The policy of a running
// program is stored as JSON (Declare), which every version of the agent reads. The package writes
// nothing to disk, and has no goroutines except that of a Command whose context ends.
package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/landlock"
)

// Names of seccomp profiles; others are the operator's. The empty name is an error and never means
// "none". Every profile except SeccompNone has a filter.
const (
	SeccompDefault = "default"
	SeccompNone    = "none"
)

// Policy defines what a program may do. The zero value is refused: each layer must be set.
type Policy struct {
	Argv   []string
	Env    Environment
	Dir    string   // working directory
	DirAs  DirAs    // whose rights are used to enter it
	Search []string // directories tried for a program name before those of PATH
	// ByDescriptor executes the file that the starter passes (launch.Start.Executable), which needs
	// no grant. Argv[0] is only its name.
	ByDescriptor bool

	// MissingExit is the exit status of a program that cannot be executed, with the reason on
	// stderr. 0 makes it an error of the start.
	MissingExit int
	// NotFound is the error for a program that does not exist, "" for that of the kernel.
	NotFound string
	// Executable makes a file of the program's user executable if it is not.
	Executable bool

	OOMScoreAdj int
	PrivateIPC  bool // own System V IPC and POSIX message queues
	PrivatePID  bool // own process numbers; process 1 is tinyinit, not the program
	// OwnUsers is a user namespace that maps only the starter, created with PrivatePID. An unprivileged agent
	// needs it for the other namespaces.
	OwnUsers bool
	NetNS    string  // network namespace to join, by path; "" keeps the starter's
	Hostname string  // in a UTS namespace of its own; "" keeps the starter's
	Mounts   *Mounts // own mount namespace; nil keeps the starter's
	// Foreign are paths in the starter's mount namespace where files of others are mounted. No link
	// is followed there. The paths of Mounts are always foreign.
	Foreign []string
	// Links are the only links that are followed in the user namespace of OwnUsers: see KeepLinks.
	Links      []Link
	LogDenials bool // audit denials of Landlock
	LogCalls   bool // audit denials of seccomp

	User    *User  // nil keeps the starter's
	Files   *Files // nil does not restrict files, sockets and signals
	Rlimits []Rlimit

	Bound            bool   // ends with the process that started it
	SkipGone         bool   // omit granted paths that no longer exist or are hidden
	KeepCapabilities bool   // false clears all five sets, except Capabilities
	Capabilities     uint64 // a bit for each capability that stays: see dropPrivileges
	KeepPrivileges   bool   // false sets no_new_privs
	Seccomp          string // profile, by its name
	Filter           []byte // seccomp filter, empty for SeccompNone only: an array of struct sock_filter (package seccomp)
}

// DirAs selects whose rights are used to enter a working directory.
type DirAs string

// A directory whose path somebody could have changed to a link is entered as the program's user.
// This leads nowhere that the program could not go by itself. DirAsStarter is for directories below
// ones that only the starter can traverse.
const (
	DirAsStarter DirAs = ""
	DirAsUser    DirAs = "user"
)

// Environment is the program's environment, "NAME=value" each. It prints as a count, since it
// contains secrets.
type Environment []string

func (e Environment) String() string { return fmt.Sprintf("(%d variables)", len(e)) }

// GoString implements fmt.GoStringer without printing the values.
func (e Environment) GoString() string { return e.String() }

// User is the user and the groups of the program.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
}

// Mounts are the differences between the program's own mount namespace and the host's. They are
// applied in the order of the fields. Grants of Files below Tmp's /tmp stay visible.
type Mounts struct {
	// Root replaces the root directory. Targets of Binds are paths in it, and Hide applies to the sources of
	// Binds. View, Tmp and Proc are not used.
	Root *Root
	// Hide are directories that appear empty except for the grants of Files below them, also through
	// links, and the places of Binds. A directory that is granted itself, by this name or its path
	// without links, is not hidden. A directory that does not exist is skipped.
	Hide []string
	// Unmount are mount points of the host that the namespace does not keep, with all mounts below them, so that the program
	// keeps no file system of others busy after the host has unmounted it. Binds may be of files below them. A path
	// without a mount is skipped.
	Unmount []string
	View    View // the zero View hides nothing
	Binds   []Bind
	Tmp     Path // directory shown as /tmp; Modes are ignored; the zero Path keeps the host's
	Proc    bool // fresh /proc of the program's PID namespace, with its own processes only
}

// View restricts a directory that many programs share to the program's own part: Own, and the
// grants of Files by name. The rest appears empty and is read-only. A program that is granted Dir
// itself sees all of it.
type View struct {
	Dir string
	Own string // relative path of a directory below Dir
}

// Bind mounts Source at Target, with all mounts below it. No link on the path of Source is
// followed. Binds have no setuid files, and no devices except with Device or as the Root allows.
type Bind struct {
	Source   Path   // Modes are ignored
	Target   string // must exist, and must not be a link
	Beneath  string // if set: Target is relative to it, resolved without links, and created if missing
	ReadOnly bool   // including all mounts below
	Device   bool   // Source is a device node; another file is an error

	// Only in a Root, where a missing target is created:
	HostFiles   bool // the files belong to the host: Root.Users applies
	Propagation Propagation
}

// Files are the rights that Landlock grants.
type Files struct {
	Paths  []Path
	TCP    *landlock.Ports // nil does not restrict TCP
	Ioctl  bool            // do not restrict ioctl on devices
	Signal bool            // do not restrict signals, for programs with a PID namespace and sessions next to them
	MinABI int             // an older kernel is an error
}

// points are the places of mounts whose files others may have written.
func (m *Mounts) points() []string {
	if m == nil || m.Root != nil { // no grant is below a place in a root
		return nil
	}
	var out []string
	for _, b := range m.Binds {
		out = append(out, b.point())
	}
	if m.Tmp != (Path{}) {
		out = append(out, tmpDir)
	}
	return out
}

func (b Bind) point() string { return filepath.Join(b.Beneath, b.Target) }

// Path grants Modes (r read, w write, x execute, c create and remove) on a file or on everything
// below a directory. With Beneath set, Name is relative to that directory and resolved without
// following links, for places that another task could have prepared. An Optional path is granted if
// it exists. A Device is a device node, on which ioctl is granted too; another file is an error.
type Path struct {
	Modes    string
	Name     string
	Beneath  string
	Optional bool
	Device   bool
}

func (p Path) String() string {
	if p.Device {
		return p.Modes + ":" + filepath.Join(p.Beneath, p.Name) + ", with ioctl"
	}
	if p.Optional {
		return p.Modes + ":" + filepath.Join(p.Beneath, p.Name) + " if it exists"
	}
	return p.Modes + ":" + filepath.Join(p.Beneath, p.Name)
}

// Rlimit is one resource limit (RLIMIT_ numbers of the kernel).
type Rlimit struct {
	Resource   int
	Soft, Hard uint64
}

// Validate returns every contradiction and invalid value in p.
func (p *Policy) Validate() error {
	errs := []error{p.validateProgram(), p.validateFilter()}
	if p.OwnUsers && (!p.PrivatePID || p.User != nil || p.NetNS != "" || p.Hostname != "" || p.KeepCapabilities) {
		errs = append(errs, errors.New("a user namespace needs a PID namespace, and excludes another user, a network namespace and capabilities"))
	}
	if p.Capabilities != 0 && (p.KeepCapabilities || p.OwnUsers || p.User == nil) {
		errs = append(errs, errors.New("a set of capabilities needs a user, and excludes a user namespace and the starter's capabilities"))
	}
	if p.KeepPrivileges && (p.Files != nil || p.Seccomp != SeccompNone) {
		errs = append(errs, errors.New("landlock and seccomp need no_new_privs"))
	}
	if p.Files != nil {
		for _, path := range p.Files.Paths {
			errs = append(errs, path.validate())
		}
	}
	if err := errors.Join(append(errs, p.validateNamespaces())...); err != nil {
		return fmt.Errorf("sandbox policy: %w", err)
	}
	return nil
}

// validateProgram checks the arguments, the environment and the working directory.
func (p *Policy) validateProgram() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		fail("no program")
	}
	if !filepath.IsAbs(p.Dir) {
		fail("working directory %q is not absolute", p.Dir)
	}
	if p.DirAs != DirAsStarter && p.DirAs != DirAsUser {
		fail("working directory entered as %q: unknown", p.DirAs)
	}
	if slices.ContainsFunc(slices.Concat(p.Argv, p.Env, []string{p.Dir}), func(s string) bool { return strings.ContainsRune(s, 0) }) {
		fail("an argument or variable holds a NUL byte")
	}
	if slices.ContainsFunc(p.Env, func(v string) bool { return strings.IndexByte(v, '=') < 1 }) {
		fail("a variable is not of the form NAME=value")
	}
	return errors.Join(errs...)
}

// filterStep is the size of struct sock_filter, and maxFilter the kernel's maximum number of them.
const filterStep, maxFilter = 8, 4096

func (p *Policy) validateFilter() error {
	switch n := len(p.Filter); {
	case p.Seccomp == "":
		return errors.New("seccomp profile has no name")
	case p.Seccomp == SeccompNone && n > 0:
		return fmt.Errorf("seccomp profile %q takes no filter", p.Seccomp)
	case p.Seccomp != SeccompNone && (n == 0 || n%filterStep != 0 || n/filterStep > maxFilter):
		return fmt.Errorf("seccomp filter of %d bytes is not valid (profile %q)", n, p.Seccomp)
	}
	return nil
}

func (p Path) validate() error {
	if !landlock.ValidModes(p.Modes) {
		return fmt.Errorf("path %s: modes must be any of r, w, x, c", p)
	}
	return p.validateName()
}

func (p Path) validateName() error {
	switch {
	case p.Beneath == "" && !filepath.IsAbs(p.Name):
		return fmt.Errorf("path %s is not absolute", p)
	case p.Beneath != "" && (!filepath.IsAbs(p.Beneath) || !filepath.IsLocal(p.Name)):
		return fmt.Errorf("path %s leaves %s", p, p.Beneath)
	}
	return nil
}

// maxHostname is the kernel's limit.
const maxHostname = 64

func (p *Policy) validateNamespaces() error {
	if p.NetNS != "" && !filepath.IsAbs(p.NetNS) {
		return fmt.Errorf("network namespace %q is not an absolute path", p.NetNS)
	}
	if len(p.Hostname) > maxHostname {
		return fmt.Errorf("host name %q has more than %d bytes", p.Hostname, maxHostname)
	}
	m := p.Mounts
	if m == nil {
		return nil
	}
	var errs []error
	if m.Proc && !p.PrivatePID {
		errs = append(errs, errors.New("a fresh /proc needs a PID namespace: it would show the host's processes"))
	}
	if m.Tmp != (Path{}) {
		errs = append(errs, m.Tmp.validateName())
	}
	if v := m.View; v != (View{}) &&
		(!filepath.IsAbs(v.Dir) || filepath.Clean(v.Dir) != v.Dir || v.Dir == "/" || filepath.Clean(v.Own) != v.Own || !filepath.IsLocal(v.Own) ||
			v.Own == ".") {
		errs = append(errs, fmt.Errorf("view: %q is not a directory below %q", v.Own, v.Dir))
	}
	for what, dirs := range map[string][]string{"hide": m.Hide, "unmount": m.Unmount} {
		for _, dir := range dirs {
			if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
				errs = append(errs, fmt.Errorf("%s: %q is not the absolute path of a directory below the root", what, dir))
			}
		}
	}
	for _, b := range m.Binds {
		errs = append(errs, b.Source.validateName(), Path{Name: b.Target, Beneath: b.Beneath}.validateName(), b.validateRoot(m.Root))
	}
	if m.Root != nil {
		errs = append(errs, m.Root.validate(p))
	}
	return errors.Join(errs...)
}

// String prints p, one layer per line, without the environment's values.
func (p *Policy) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("program  %q in %s%s", p.Argv, p.Dir, map[bool]string{true: ", by descriptor"}[p.ByDescriptor])
	line("env      %s", p.Env)
	line("private  pid=%t ipc=%t", p.PrivatePID, p.PrivateIPC)
	if p.NetNS != "" {
		line("network  %s", p.NetNS)
	}
	if p.Hostname != "" {
		line("hostname %s", p.Hostname)
	}
	p.Mounts.print(line)
	if p.User != nil {
		line("user     uid=%d gid=%d groups=%v", p.User.UID, p.User.GID, p.User.Groups)
	} else {
		line("user     unchanged%s", map[bool]string{true: ", alone in a user namespace"}[p.OwnUsers])
	}
	line("caps     keep=%t%s, no_new_privs=%t", p.KeepCapabilities, setText(p.Capabilities), !p.KeepPrivileges)
	for _, r := range p.Rlimits {
		line("rlimit   %d soft=%d hard=%d", r.Resource, r.Soft, r.Hard)
	}
	if p.Files != nil {
		line("landlock ABI >= %d, tcp restricted=%t, ioctl restricted=%t, signals restricted=%t", p.Files.MinABI, p.Files.TCP != nil,
			!p.Files.Ioctl, !p.Files.Signal)
		for _, path := range p.Files.Paths {
			line("  %s", path)
		}
	} else {
		line("landlock none")
	}
	line("seccomp  %s", p.Seccomp)
	return b.String()
}

func (m *Mounts) print(line func(string, ...any)) {
	if m == nil {
		line("mounts   unchanged")
		return
	}
	line("mounts   own, proc=%t", m.Proc)
	m.Root.print(line)
	for _, dir := range m.Hide {
		line("  of %s only what is granted there", dir)
	}
	for _, dir := range m.Unmount {
		line("  %s is unmounted", dir)
	}
	if m.View != (View{}) {
		line("  of %s only %s", m.View.Dir, m.View.Own)
	}
	for _, b := range m.Binds {
		line("  %s", b)
	}
	if m.Tmp != (Path{}) {
		line("  %s at %s", m.Tmp.full(), tmpDir)
	}
}
