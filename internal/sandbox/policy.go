// Package sandbox runs one program under a Policy, a plain value made elsewhere
// and printable, which nothing changes while it is applied.
//
// The supervisor (internal/supervise) puts the policy into a memory file (wire.go) and
// executes the companion as "nomad-sandbox", with the control groups' files as arguments (internal/launch).
// That stage applies it to itself, in this order, and executes the program in its own
// place, so that no helper stays. With PrivatePID it is
// process 2 of a namespace whose process 1 is that of internal/tinyinit:
//
//	join the control group → oom score → network, IPC and mount namespaces
//	→ hidden directories → view → binds → private /tmp → fresh /proc → open the granted paths
//	→ working directory → close every descriptor but 0–2 (at execve)
//	→ groups, uid, all five capability sets → no_new_privs
//	→ Landlock (all rights and scopes of the kernel) → rlimits → seccomp → execve
//
// It fails closed: what the policy asks for and can't be had is an error, which
// goes to the starter over a pipe that execve closes; end of file there means
// that the program runs. The program's environment is data to the stage and
// becomes an environment at execve only. What is kept of a policy while its program runs
// (Declare) is JSON, which every version of the agent reads. No goroutines, no disk.
package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/landlock"
)

// Names of seccomp profiles; others are the operator's. The empty name is an error: it
// never means "none", and no profile but SeccompNone goes without a filter.
const (
	SeccompDefault = "default"
	SeccompNone    = "none"
)

// Policy is what a program may do. The zero value is refused: say of each layer
// what it is to be.
type Policy struct {
	Argv   []string
	Env    Environment
	Dir    string   // working directory
	DirAs  DirAs    // with whose rights it is entered
	Search []string // directories tried for a program name before those of PATH

	// MissingExit makes a program that can't be executed an exit status of its
	// own, with the reason on stderr; 0 makes it an error of the start.
	MissingExit int

	OOMScoreAdj int
	PrivateIPC  bool    // own System V IPC and POSIX message queues
	PrivatePID  bool    // own process numbers; process 1 is ours, not the program
	OwnUsers    bool    // user namespace with nobody but the starter in it, made with PrivatePID: what lets an ordinary user have the other namespaces
	NetNS       string  // network namespace to join, by path; "" keeps the starter's
	Mounts      *Mounts // own mount namespace; nil keeps the starter's
	// Foreign are places of the mount namespace that the program is started in where
	// others' files are mounted: no link there is followed. Those of Mounts are it anyway.
	Foreign []string
	// Links are followed in the user namespace of OwnUsers, and no others: see KeepLinks.
	Links      []Link
	LogDenials bool // the kernel's audit tells what Landlock refuses
	LogCalls   bool // and what seccomp does

	User    *User  // nil keeps the starter's
	Files   *Files // nil leaves files, sockets and signals alone
	Rlimits []Rlimit

	Bound            bool   // to another program, beside which it starts: ends with the process that started it, and goes without granted paths that are gone
	KeepCapabilities bool   // false clears all five sets
	KeepPrivileges   bool   // false sets no_new_privs
	Seccomp          string // profile, by its name
	Filter           []byte // of the profile, empty for SeccompNone only: an array of struct sock_filter (package seccomp)
}

// DirAs says with whose rights a working directory is entered.
type DirAs string

// A directory on whose way somebody could have put a link is entered as the program's
// user: that leads nowhere where the program could not go by itself. The other one may
// lie below directories that only the starter can pass.
const (
	DirAsStarter DirAs = ""
	DirAsUser    DirAs = "user"
)

// Environment is the program's environment, "NAME=value" each. It prints as a
// count, for it holds secrets.
type Environment []string

func (e Environment) String() string { return fmt.Sprintf("(%d variables)", len(e)) }

// GoString keeps %#v from printing the values.
func (e Environment) GoString() string { return e.String() }

// User is who the program runs as.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
}

// Mounts are what the program's own mount namespace shows otherwise than the host's.
// They are made in the order of the fields. What Files grants below Tmp's /tmp stays
// visible there.
type Mounts struct {
	// Hide are directories that look empty but for what Files grants below them, by whatever
	// links, and the places of Binds. One that is granted itself, by its name here or its path
	// without links, stays as it is; one that does not exist is skipped.
	Hide  []string
	View  View // the zero View hides nothing
	Binds []Bind
	Tmp   Path // directory shown as /tmp; Modes are not looked at; the zero Path keeps the host's
	Proc  bool // fresh /proc of the program's PID namespace, of which it sees its own processes only
}

// View leaves of a directory where many have something only what is the program's: Own, and
// what Files grants in Dir by name. Who is granted Dir itself sees all of it. The rest
// looks empty, and nothing can be made there.
type View struct {
	Dir string
	Own string // name of a directory in Dir
}

// Bind shows Source, which is reached without following any link, at Target, with
// everything that is mounted below it. None gives devices or setuid files.
type Bind struct {
	Source   Path   // Modes are not looked at
	Target   string // must be there, and no link at its last step
	Beneath  string // if set: Target is relative to it, reached without any link, and made if it is not there
	ReadOnly bool   // for all mounts below too
}

// Files are the rights that Landlock leaves.
type Files struct {
	Paths  []Path
	TCP    *landlock.Ports // nil leaves TCP alone
	MinABI int             // an older kernel is an error
}

// points are the places where something is mounted that others may have written.
func (m *Mounts) points() []string {
	if m == nil {
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

// Path grants Modes (r read, w write, x execute, c create and remove) on a file
// or on everything below a directory. With Beneath set, Name is relative to that
// directory and reached without following any symlink: for places that another
// task could have prepared. One that is Optional is granted if it is there.
type Path struct {
	Modes    string
	Name     string
	Beneath  string
	Optional bool
}

func (p Path) String() string {
	if p.Optional {
		return p.Modes + ":" + filepath.Join(p.Beneath, p.Name) + " if it is there"
	}
	return p.Modes + ":" + filepath.Join(p.Beneath, p.Name)
}

// Rlimit is one resource limit (RLIMIT_ numbers of the kernel).
type Rlimit struct {
	Resource   int
	Soft, Hard uint64
}

// Validate says what of p can't be meant.
func (p *Policy) Validate() error {
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
	if p.Seccomp == "" {
		fail("seccomp profile has no name")
	}
	if err := p.validateFilter(); err != nil {
		errs = append(errs, err)
	}
	if p.OwnUsers && (!p.PrivatePID || p.User != nil || p.NetNS != "" || p.KeepCapabilities) {
		fail("a user namespace comes with a PID namespace, and has no other user, network namespace or capabilities")
	}
	if p.KeepPrivileges && (p.Files != nil || p.Seccomp != SeccompNone) {
		fail("landlock and seccomp need no_new_privs")
	}
	if p.Files != nil {
		for _, path := range p.Files.Paths {
			if err := path.validate(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if err := p.validateNamespaces(); err != nil {
		errs = append(errs, err)
	}
	for _, s := range slices.Concat(p.Argv, p.Env, []string{p.Dir}) {
		if strings.ContainsRune(s, 0) {
			fail("an argument or variable holds a NUL byte")
			break
		}
	}
	for _, v := range p.Env {
		if i := strings.IndexByte(v, '='); i < 1 {
			fail("a variable is not of the form NAME=value")
			break
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("sandbox policy: %w", errors.Join(errs...))
	}
	return nil
}

// filterStep and maxFilter are the size of struct sock_filter and how many of them
// the kernel takes at most.
const filterStep, maxFilter = 8, 4096

func (p *Policy) validateFilter() error {
	switch n := len(p.Filter); {
	case p.Seccomp == SeccompNone && n > 0:
		return fmt.Errorf("seccomp profile %q takes no filter", p.Seccomp)
	case p.Seccomp != SeccompNone && (n == 0 || n%filterStep != 0 || n/filterStep > maxFilter):
		return fmt.Errorf("seccomp filter of %d bytes is none (profile %q)", n, p.Seccomp)
	}
	return nil
}

func (p Path) validate() error {
	switch {
	case !landlock.ValidModes(p.Modes):
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

func (p *Policy) validateNamespaces() error {
	if p.NetNS != "" && !filepath.IsAbs(p.NetNS) {
		return fmt.Errorf("network namespace %q is not an absolute path", p.NetNS)
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
	if v := m.View; v != (View{}) && (!filepath.IsAbs(v.Dir) || filepath.Clean(v.Dir) != v.Dir || v.Dir == "/" || filepath.Base(v.Own) != v.Own || !filepath.IsLocal(v.Own) || v.Own == ".") {
		errs = append(errs, fmt.Errorf("view: %q is no directory of its own in %q", v.Own, v.Dir))
	}
	for _, dir := range m.Hide {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
			errs = append(errs, fmt.Errorf("hide: %q is not the absolute path of a directory below the root", dir))
		}
	}
	for _, b := range m.Binds {
		errs = append(errs, b.Source.validateName(), Path{Name: b.Target, Beneath: b.Beneath}.validateName())
	}
	return errors.Join(errs...)
}

// String prints p, one layer a line, without the environment's values.
func (p *Policy) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("program  %q in %s", p.Argv, p.Dir)
	line("env      %s", p.Env)
	line("private  pid=%t ipc=%t", p.PrivatePID, p.PrivateIPC)
	if p.NetNS != "" {
		line("network  %s", p.NetNS)
	}
	p.Mounts.print(line)
	if p.User != nil {
		line("user     uid=%d gid=%d groups=%v", p.User.UID, p.User.GID, p.User.Groups)
	} else {
		line("user     unchanged%s", map[bool]string{true: ", alone in a user namespace"}[p.OwnUsers])
	}
	line("caps     keep=%t, no_new_privs=%t", p.KeepCapabilities, !p.KeepPrivileges)
	for _, r := range p.Rlimits {
		line("rlimit   %d soft=%d hard=%d", r.Resource, r.Soft, r.Hard)
	}
	if p.Files != nil {
		line("landlock ABI >= %d, tcp restricted=%t", p.Files.MinABI, p.Files.TCP != nil)
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
	for _, dir := range m.Hide {
		line("  of %s only what is granted there", dir)
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
