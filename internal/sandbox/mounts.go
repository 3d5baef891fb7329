package sandbox

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// mount applies p.Mounts in the private mount namespace of the calling thread. It works with
// descriptors throughout: a name that a task could have prepared is resolved once, without
// following links.
func (p *Policy) mount(lookup *lookup) error {
	if p.Mounts.Root != nil {
		return p.mountRoot(lookup)
	}
	// From here on, mounts do not propagate to the host or from it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: mount: %w", err)
	}
	// Sources are paths of the host: open all of them before any is covered.
	sources, err := p.openSources(lookup)
	defer func() { closeFiles(sources) }()
	if err != nil {
		return err
	}
	unneeded := openMounts(p.Mounts.Unmount) // before they are hidden
	defer closeFiles(unneeded)
	if err := p.hide(lookup); err != nil {
		return err
	}
	view := mounted{tree: safefs.NoTree}
	if p.Mounts.View != (View{}) {
		if view, err = p.mountView(lookup); err != nil {
			return fmt.Errorf("hide the other entries of %s: %w", p.Mounts.View.Dir, err)
		}
		defer view.tree.Close()
	}
	if err := p.makeBinds(lookup, sources); err != nil {
		return err
	}
	if err := unmountAll(unneeded); err != nil { // after the binds of what is below them
		return err
	}
	if p.Mounts.Tmp != (Path{}) {
		err := p.mountTmp(lookup, view)
		if err == nil {
			err = lookup.add(tmpDir)
		}
		if err != nil {
			return fmt.Errorf("mount private %s: %w", tmpDir, err)
		}
	}
	if p.Mounts.Proc {
		if err := mountProc(); err != nil {
			return fmt.Errorf("mount fresh /proc: %w", err)
		}
	}
	return nil
}

// openSources opens the sources of the binds.
func (p *Policy) openSources(lookup *lookup) ([]int, error) {
	sources := make([]int, 0, len(p.Mounts.Binds))
	for _, b := range p.Mounts.Binds {
		fd, err := b.openSource(lookup)
		if err != nil {
			return sources, fmt.Errorf("mount %s: open the source: %w", b, err)
		}
		sources = append(sources, fd)
	}
	return sources, nil
}

// openMounts opens the roots of mounts. It omits paths that do not exist.
func openMounts(names []string) (out []int) {
	for _, name := range names {
		if fd, err := safefs.OpenNoLinks(name, unix.O_PATH|unix.O_DIRECTORY); err == nil {
			out = append(out, fd)
		}
	}
	return out
}

// unmountAll unmounts the mounts whose roots are open, with all mounts below them.
func unmountAll(roots []int) error {
	for _, fd := range roots {
		// The magic link leads to the mount also if its path is hidden.
		err := unix.Unmount("/proc/self/fd/"+strconv.Itoa(fd), unix.MNT_DETACH)
		if err != nil && err != unix.EINVAL { // not the root of a mount
			return fmt.Errorf("unmount what the program does not need: %w", err)
		}
	}
	return nil
}

func closeFiles(all []int) {
	for _, fd := range all {
		unix.Close(fd)
	}
}

// makeBinds mounts the binds of sources.
func (p *Policy) makeBinds(lookup *lookup, sources []int) error {
	for i, b := range p.Mounts.Binds {
		err := b.mount(lookup, sources[i])
		if err == nil {
			err = lookup.add(b.point())
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", b, err)
		}
	}
	return nil
}

// restrict makes all mounts of a tree nodev, nosuid, private and, if wanted, read-only.
func restrict(t safefs.Tree, readOnly bool) error {
	return t.Restrict(safefs.TreeAttrs{ReadOnly: readOnly, Propagation: unix.MS_PRIVATE})
}

func (b Bind) String() string {
	mode := "rw"
	if b.ReadOnly {
		mode = "ro"
	}
	if b.Device {
		mode += ", device"
	}
	if b.HostFiles {
		mode += ", of the host"
	}
	if b.Propagation != PropagateNone {
		mode += ", propagated " + string(b.Propagation)
	}
	return fmt.Sprintf("%s at %s (%s)", filepath.Join(b.Source.Beneath, b.Source.Name), filepath.Join(b.Beneath, b.Target), mode)
}

// validateRoot checks what is allowed in a Root only.
func (b Bind) validateRoot(r *Root) error {
	switch {
	case b.Propagation != PropagateNone && b.Propagation != PropagateIn && b.Propagation != PropagateBoth:
		return fmt.Errorf("propagation %q is unknown", b.Propagation)
	case r == nil && (b.HostFiles || b.Propagation != PropagateNone):
		return fmt.Errorf("mount %s: propagation and owners are for a root only", b)
	}
	return nil
}

func (b Bind) mount(lookup *lookup, source int) error {
	target, err := b.openTarget(lookup, source)
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
	t, err := safefs.CopyTree(source)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.Restrict(safefs.TreeAttrs{ReadOnly: b.ReadOnly, Devices: b.Device, Propagation: unix.MS_PRIVATE}); err != nil {
		return err
	}
	return t.Attach(target)
}

// openSource follows no link at all.
func (b Bind) openSource(lookup *lookup) (int, error) {
	if b.Source.Beneath != "" {
		fd, err := b.Source.open(lookup)
		return int(fd), err
	}
	return safefs.OpenNoLinks(b.Source.Name, unix.O_PATH)
}

func (b Bind) openTarget(lookup *lookup, source int) (int, error) {
	if b.Beneath != "" {
		root, err := lookup.open(b.Beneath)
		if err != nil {
			return -1, err
		}
		defer root.Close()
		return makeMountPoint(int(root.Fd()), mountPoint{b.Target, isDir(source), 0o755})
	}
	above, err := lookup.open(filepath.Dir(b.Target))
	if err != nil {
		return -1, err
	}
	defer above.Close()
	fd, err := unix.Openat(int(above.Fd()), filepath.Base(b.Target), unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == nil && isLink(fd) {
		unix.Close(fd)
		return -1, errors.New("the destination is a symbolic link")
	}
	return fd, err
}

// mountPoint is a directory or file to mount on.
type mountPoint struct {
	name string
	dir  bool
	mode uint32 // of directories that are created
}

// makeMountPoint opens a mount point below root, without following a link. It creates the mount
// point and its parents if they do not exist.
func makeMountPoint(root int, m mountPoint) (int, error) {
	fd, err := safefs.OpenBeneath(root, m.name, unix.O_PATH)
	if err != unix.ENOENT {
		return fd, err
	}
	at := root
	defer func() {
		if at != root {
			unix.Close(at)
		}
	}()
	parts := strings.Split(path.Clean(m.name), "/")
	for i, part := range parts {
		if i == len(parts)-1 && !m.dir {
			return makeFile(at, part)
		}
		if err := unix.Mkdirat(at, part, m.mode); err != nil && err != unix.EEXIST {
			return -1, fmt.Errorf("make directory %s: %w", path.Join(parts[:i+1]...), err)
		}
		next, err := safefs.OpenBeneath(at, part, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, fmt.Errorf("open directory %s: %w", path.Join(parts[:i+1]...), err)
		}
		if at != root {
			unix.Close(at)
		}
		at = next
	}
	fd, at = at, root
	return fd, nil
}

// makeFile creates an empty file to mount another one on.
func makeFile(at int, name string) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return -1, fmt.Errorf("make file %s: %w", name, err)
	}
	return fd, nil
}

func isDir(fd int) bool  { return fileType(fd) == unix.S_IFDIR }
func isLink(fd int) bool { return fileType(fd) == unix.S_IFLNK }

// errNoDevice refuses another file in place of a device node.
var errNoDevice = errors.New("not a device node")

func isDevice(fd int) bool {
	kind := fileType(fd)
	return kind == unix.S_IFCHR || kind == unix.S_IFBLK
}

func fileType(fd int) uint32 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}
