package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links a path may pass, as in the kernel.
const maxLinks = 40

// errHidden is what becomes of a path that lies in a foreign mount and is not there, or
// passes a link there.
var errHidden = errors.New("what is mounted there hides it")

// opened is a descriptor opened with O_PATH. Package os would look at it first, and note
// to close it, for each of the 40 that a start opens.
type opened int

func (o opened) Fd() uintptr { return uintptr(o) }
func (o opened) Close()      { unix.Close(int(o)) }

// lookup opens paths in a tree in which some mounts hold what others wrote: volumes, the
// program's /tmp. A link in such a mount is never followed. It could lead a grant, or the
// place of another mount, to wherever its writer wants.
type lookup struct {
	foreign map[uint64]bool // by mount ID
	root    uint64          // mount ID of /, 0 before it was asked for
	text    []byte          // room for what a link says, made for the first one
}

// add makes what is mounted at a place foreign.
func (l *lookup) add(point string) error {
	f, err := l.open(point)
	if err != nil {
		return fmt.Errorf("look at %s: %w", point, err)
	}
	defer f.Close()
	id, err := mountID(int(f.Fd()))
	if err != nil {
		return fmt.Errorf("look at %s: %w", point, err)
	}
	if l.foreign == nil {
		l.foreign = map[uint64]bool{}
	}
	l.foreign[id] = true
	return nil
}

// open opens an absolute path with O_PATH.
func (l *lookup) open(name string) (opened, error) {
	if len(l.foreign) == 0 { // the kernel's own lookup will do
		fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		return opened(fd), nil
	}
	// Where there is no link on the way none can be wrong.
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		return opened(fd), nil
	}
	own, err := l.openOnRoot(name)
	if err == nil {
		return own, nil
	}
	if err == unix.ENOENT { // and no foreign mount on the way to where it ends
		return -1, err
	}
	w := &walk{look: l, at: -1}
	defer w.close()
	if err := w.restart(name); err != nil {
		return -1, err
	}
	for len(w.rest) > 0 {
		if err := w.step(); err != nil {
			return -1, err
		}
	}
	fd = w.at
	w.at = -1
	return opened(fd), nil
}

// openOnRoot opens a path that does not leave the mount of /, whatever links it passes: so
// it is in no foreign mount on the way. Any other path is an error.
func (l *lookup) openOnRoot(name string) (opened, error) {
	if l.root == 0 {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		defer unix.Close(fd)
		if l.root, err = mountID(fd); err != nil {
			return -1, err
		}
	}
	if l.foreign[l.root] {
		return -1, unix.EXDEV
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS})
	return opened(fd), err
}

// walk is one lookup on its way.
type walk struct {
	look   *lookup
	at     int      // descriptor of where it is
	rest   []string // what is still to go
	inside bool     // a foreign mount was entered
	links  int
}

func (w *walk) close() {
	if w.at >= 0 {
		unix.Close(w.at)
	}
}

// restart begins at the root; name comes before what is left to go.
func (w *walk) restart(name string) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.prepend(name)
	return w.move(fd, false)
}

func (w *walk) prepend(name string) {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	w.rest = append(parts, w.rest...)
}

// move goes to fd, within a foreign mount if it was in one or fd is the root of one.
func (w *walk) move(fd int, inside bool) error {
	w.close()
	w.at = fd
	id, err := mountID(fd)
	w.inside = inside || w.look.foreign[id]
	return err
}

func (w *walk) step() error {
	part := w.rest[0]
	w.rest = w.rest[1:]
	next, err := unix.Openat(w.at, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if w.inside && (err == unix.ENOENT || err == unix.ENOTDIR) {
			return errHidden
		}
		return err
	}
	if !isLink(next) {
		return w.move(next, w.inside)
	}
	defer unix.Close(next)
	return w.follow(part, next)
}

// follow goes where the link part, open as link, leads.
func (w *walk) follow(part string, link int) error {
	if w.inside {
		return errHidden
	}
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(link, &fs); err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC { // its links are the kernel's, and some have no text
		fd, err := unix.Openat(w.at, part, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return w.move(fd, false)
	}
	if w.look.text == nil {
		w.look.text = make([]byte, unix.PathMax)
	}
	n, err := unix.Readlinkat(link, "", w.look.text)
	if err != nil {
		return err
	}
	to := string(w.look.text[:n])
	if filepath.IsAbs(to) {
		return w.restart(to)
	}
	w.prepend(to)
	return nil
}

// mountID tells mounts apart.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return 0, fmt.Errorf("statx: %w", err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, errors.New("statx: this kernel tells no mount IDs, which Linux 5.8 brought")
	}
	return st.Mnt_id, nil
}
