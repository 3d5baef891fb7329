package sandbox

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Root is a root directory of the program's own. The binds of the Mounts are in it. It has a /dev, /proc and /sys
// of its own, and nothing else of the host: the host's mounts are unmounted from the program's namespace.
type Root struct {
	Dir   Path   // shown as /, without the mounts in it; Modes are ignored
	Links []Link // created in Dir; an existing file is an error, except the same link
	// Users is the path of a user namespace, "" for none. Binds with HostFiles have only the users and groups
	// of the namespace as owners: a capability gives no access to the files of others.
	Users   string
	Setuid  bool // set-user-ID programs work
	Devices bool // device files work outside of /dev, too
}

// Propagation is how mounts that are made later below the source of a bind, or below its target, reach the
// other side.
type Propagation string

// The propagation of a bind. Only binds in a Root have another one than PropagateNone.
const (
	PropagateNone Propagation = ""
	PropagateIn   Propagation = "in"   // from the host to the program
	PropagateBoth Propagation = "both" // in both directions
)

func (r *Root) validate(p *Policy) error {
	m := p.Mounts
	errs := []error{r.Dir.validateName()}
	if m.View != (View{}) || m.Tmp != (Path{}) || m.Proc || p.OwnUsers {
		errs = append(errs, errors.New("a root excludes a view, another /tmp and /proc, and a user namespace"))
	}
	// Process 1 of the PID namespace keeps the host's root directory. Landlock, or the lack of the capability, keeps the
	// program from it.
	if p.PrivatePID && p.Files == nil && has(p.Capabilities, unix.CAP_SYS_PTRACE) {
		errs = append(errs, errors.New("a program with SYS_PTRACE and without Landlock could leave its root: it needs the host's PID namespace"))
	}
	if r.Users != "" && !filepath.IsAbs(r.Users) {
		errs = append(errs, fmt.Errorf("user namespace %q is not an absolute path", r.Users))
	}
	for _, l := range r.Links {
		if !isInRoot(l.Name) {
			errs = append(errs, fmt.Errorf("link %q is not a path below the root", l.Name))
		}
	}
	for _, b := range m.Binds {
		if b.Beneath != "" || !isInRoot(b.Target) && !b.inDev() {
			errs = append(errs, fmt.Errorf("target %q of a bind is not a path below the root", b.Target))
		}
	}
	return errors.Join(errs...)
}

// inDev reports whether the bind is a device node in the root's /dev.
func (b Bind) inDev() bool {
	return b.Device && filepath.Clean(b.Target) == b.Target && strings.HasPrefix(b.Target, "/dev/")
}

// isInRoot reports whether a path of the program is below the root, but not in a directory of the kernel.
func isInRoot(name string) bool {
	if !filepath.IsAbs(name) || filepath.Clean(name) != name || name == "/" {
		return false
	}
	for _, own := range kernelDirs {
		if safefs.Within(name, own) {
			return false
		}
	}
	return true
}

func (r *Root) print(line func(string, ...any)) {
	if r == nil {
		return
	}
	line("  root %s, with /dev, /proc and /sys; setuid=%t devices=%t, owners of %s", r.Dir.full(), r.Setuid, r.Devices,
		map[bool]string{true: "the host", false: r.Users}[r.Users == ""])
	for _, l := range r.Links {
		line("  link %s to %s", l.Name, l.Target)
	}
}

// mountRoot replaces the root directory of the calling thread, which is in a mount namespace of its own.
func (p *Policy) mountRoot(lookup *lookup) error {
	a := &assembly{Root: p.Mounts.Root}
	defer a.close()
	defer unix.Umask(unix.Umask(0)) // directories have the modes that they are made with
	// These keep their connection to the host's mounts, which the next step ends.
	if err := a.copyShared(lookup, p.Mounts.Binds); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("end the propagation of mounts to the host: mount: %w", err)
	}
	sources, err := p.openSources(lookup)
	defer func() { closeFiles(sources) }()
	if err == nil {
		err = a.openUsers()
	}
	if err == nil {
		err = a.attach(lookup) // before the directories around it are hidden
	}
	if err == nil {
		err = p.hide(lookup)
	}
	if err != nil {
		return err
	}
	for i, b := range p.Mounts.Binds {
		if b.inDev() {
			a.devices = append(a.devices, openBind{b, sources[i]}) // when /dev is there
			continue
		}
		if err := a.bind(b, sources[i]); err != nil {
			return fmt.Errorf("mount %s: %w", b, err)
		}
	}
	for _, l := range a.Links {
		if err := a.link(l); err != nil {
			return fmt.Errorf("make the link %s: %w", l.Name, err)
		}
	}
	if err := a.mountKernel(); err != nil {
		return err
	}
	return a.enter()
}

// assembly is a root while it is made.
type assembly struct {
	*Root
	base   safefs.Tree // mounted on Dir
	users  int         // descriptor of Users, 0 for none
	shared map[string]safefs.Tree
	proc   safefs.Tree
	// devices are mounted in /dev before it is sealed.
	devices []openBind
}

// openBind is a bind with the descriptor of its source.
type openBind struct {
	Bind
	source int
}

func (a *assembly) close() {
	a.base.Close()
	a.proc.Close()
	for _, t := range a.shared {
		t.Close()
	}
	if a.users > 0 {
		unix.Close(a.users)
	}
}

// copyShared copies the sources of binds that propagate mounts to the host.
func (a *assembly) copyShared(lookup *lookup, binds []Bind) error {
	a.base, a.proc, a.shared = safefs.NoTree, safefs.NoTree, map[string]safefs.Tree{}
	for _, b := range binds {
		if b.Propagation != PropagateBoth {
			continue
		}
		fd, err := b.openSource(lookup)
		if err != nil {
			return fmt.Errorf("mount %s: open the source: %w", b, err)
		}
		t, err := safefs.CopyTree(fd)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("mount %s: %w", b, err)
		}
		a.shared[b.Target] = t
	}
	return nil
}

func (a *assembly) openUsers() error {
	if a.Users == "" {
		return nil
	}
	fd, err := openNamespace(a.Users)
	if err != nil {
		return fmt.Errorf("open user namespace %s: %w", a.Users, err)
	}
	a.users = fd
	return nil
}

// attach mounts Dir on itself, so that it can become a root directory.
func (a *assembly) attach(lookup *lookup) error {
	at, err := a.Dir.open(lookup)
	if err != nil {
		return fmt.Errorf("open the root %s: %w", a.Dir.full(), err)
	}
	defer at.Close()
	a.base, err = safefs.CopyMount(int(at.Fd()))
	if err == nil {
		err = a.base.Restrict(a.attrs(Bind{}))
	}
	if err == nil {
		err = a.base.Attach(int(at.Fd()))
	}
	if err != nil {
		return fmt.Errorf("mount the root %s: %w", a.Dir.full(), err)
	}
	return nil
}

// attrs returns the attributes of the mounts of a bind.
func (a *assembly) attrs(b Bind) safefs.TreeAttrs {
	out := safefs.TreeAttrs{ReadOnly: b.ReadOnly, Setuid: a.Setuid, Devices: a.Devices || b.Device}
	switch b.Propagation {
	case PropagateNone:
		out.Propagation = unix.MS_PRIVATE
	case PropagateIn:
		out.Propagation = unix.MS_SLAVE
	case PropagateBoth: // as the source
	}
	if b.HostFiles {
		out.Users = a.users
	}
	return out
}

func (a *assembly) bind(b Bind, source int) (err error) {
	target, err := a.point(mountPoint{inRoot(b.Target), isDir(source), 0o755})
	if err != nil {
		return fmt.Errorf("open the destination: %w", err)
	}
	defer unix.Close(target)
	if b.Device && !isDevice(source) {
		return errNoDevice
	}
	if isDir(source) != isDir(target) {
		return errors.New("one of source and destination is a directory, the other is not")
	}
	t, ok := a.shared[b.Target]
	if !ok {
		if t, err = safefs.CopyTree(source); err != nil {
			return err
		}
		defer t.Close()
	}
	if err := t.Restrict(a.attrs(b)); err != nil {
		return err
	}
	return t.Attach(target)
}

// point opens a mount point in the root. It follows no link: a program may have created some.
func (a *assembly) point(m mountPoint) (int, error) { return makeMountPoint(int(a.base), m) }

func inRoot(name string) string { return strings.TrimPrefix(name, "/") }

// link makes a symbolic link.
func (a *assembly) link(l Link) error {
	dir, name := path.Split(inRoot(l.Name))
	at, err := a.point(mountPoint{path.Clean(dir), true, 0o755})
	if err != nil {
		return fmt.Errorf("open its directory: %w", err)
	}
	defer unix.Close(at)
	err = unix.Symlinkat(l.Target, at, name)
	if err != unix.EEXIST {
		return err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(at, name, buf)
	if err != nil || string(buf[:n]) != l.Target {
		return fmt.Errorf("the task's directory has another file there, and the link leads to %s: %w", l.Target, unix.EEXIST)
	}
	return nil
}

// enter makes the base the root directory, and unmounts everything that is outside.
func (a *assembly) enter() error {
	if err := unix.Fchdir(int(a.base)); err != nil {
		return fmt.Errorf("change to the root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		if err == unix.EINVAL {
			err = fmt.Errorf("%w: the host's root directory may be a RAM disk, which a root of its own cannot replace", err)
		}
		return fmt.Errorf("pivot_root: %w", err)
	}
	// The old root is mounted on the new one, in the same place.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("change to the new root: %w", err)
	}
	return checkProc(int(a.proc))
}
