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

// lookup opens paths in a tree where others may have made symbolic links. A link is followed
// only if root alone can have made or moved it: root owns the link and every directory on the
// way, and nobody else can replace an entry on the way. In a foreign mount (a volume, the
// program's /tmp) no link is followed, whoever owns it.
type lookup struct {
	foreign map[uint64]bool // by mount ID
	root    uint64          // mount ID of /, 0 before it is read
	text    []byte          // buffer for the target of a link, made for the first one

	links    map[string]string // Policy.Links
	followed map[string]string // the links that were followed; nil keeps none
}

// linkError is the path of a link that is not followed.
type linkError string

func (e linkError) Error() string {
	return string(e) + " is a symbolic link that is not root's or that others can replace: name its target instead: " + unix.ELOOP.Error()
}

func (e linkError) Unwrap() error { return unix.ELOOP }

// add makes what is mounted at a place foreign.
func (l *lookup) add(point string) error {
	f, err := l.open(point)
	if err != nil {
		return fmt.Errorf("look at %s: %w", point, err)
	}
	defer f.Close()
	st, err := statOf(int(f.Fd()))
	if err != nil {
		return fmt.Errorf("look at %s: %w", point, err)
	}
	if l.foreign == nil {
		l.foreign = map[uint64]bool{}
	}
	l.foreign[st.Mnt_id] = true
	return nil
}

// open opens an absolute path with O_PATH.
func (l *lookup) open(name string) (opened, error) {
	const how = unix.O_PATH | unix.O_CLOEXEC
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: how, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == nil || err == unix.ENOENT && l.onRoot(name) {
		return opened(fd), err
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

// onRoot reports whether the lookup of a path that does not exist passes neither a link nor
// another mount than that of /. It is in no foreign mount then.
func (l *lookup) onRoot(name string) bool {
	if len(l.foreign) == 0 {
		return true
	}
	if l.root == 0 {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		defer unix.Close(fd)
		at, err := statOf(fd)
		if err != nil {
			return false
		}
		l.root = at.Mnt_id
	}
	if l.foreign[l.root] {
		return false
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		unix.Close(fd)
	}
	return err == unix.ENOENT
}

// rootOwned reports whether a file is root's. In the user namespace of OwnUsers no file is: those of
// root and of other users have the overflow uid. Links are followed by Policy.Links alone there.
func rootOwned(st *unix.Statx_t) bool { return st.Uid == 0 }

// fixed reports whether root alone can replace the entry child of the directory dir.
func fixed(dir, child *unix.Statx_t) bool {
	if !rootOwned(child) {
		return false
	}
	if dir.Mode&0o022 == 0 {
		return true
	}
	// The sticky bit protects directories of root. A link could be a hard link to another one.
	return dir.Mode&unix.S_ISVTX != 0 && child.Mode&unix.S_IFMT == unix.S_IFDIR
}

// walk is one lookup, component by component.
type walk struct {
	look   *lookup
	at     int          // descriptor of the current directory
	stat   unix.Statx_t // of at
	path   string       // of at, for errors
	rest   []string     // components that remain
	inside bool         // a foreign mount was entered
	safe   bool         // root alone can have made the way so far
	links  int
}

func (w *walk) close() {
	if w.at >= 0 {
		unix.Close(w.at)
	}
}

// restart begins at the root with the components of name, then those that remain.
func (w *walk) restart(name string) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.prepend(name)
	w.close()
	w.at, w.path = fd, "/"
	if w.stat, err = statOf(fd); err != nil {
		return err
	}
	w.inside, w.safe = w.look.foreign[w.stat.Mnt_id], rootOwned(&w.stat)
	return nil
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
	st, err := statOf(next)
	if err != nil {
		unix.Close(next)
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		defer unix.Close(next)
		return w.follow(part, next, &st)
	}
	w.safe = w.safe && fixed(&w.stat, &st)
	w.inside = w.inside || w.look.foreign[st.Mnt_id]
	w.close()
	w.at, w.stat, w.path = next, st, filepath.Join(w.path, part)
	return nil
}

// follow goes to the target of the link part, open as link.
func (w *walk) follow(part string, link int, st *unix.Statx_t) error {
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
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return w.jump(part)
	}
	to, err := w.target(filepath.Join(w.path, part), link, st)
	if err != nil {
		return err
	}
	if filepath.IsAbs(to) {
		return w.restart(to)
	}
	w.prepend(to)
	return nil
}

// target returns where the link name, open as fd, leads to.
func (w *walk) target(name string, fd int, st *unix.Statx_t) (string, error) {
	if to, ok := w.look.links[name]; ok {
		return to, nil
	}
	if !w.safe || !fixed(&w.stat, st) {
		return "", linkError(name)
	}
	if w.look.text == nil {
		w.look.text = make([]byte, unix.PathMax)
	}
	n, err := unix.Readlinkat(fd, "", w.look.text)
	if err != nil {
		return "", err
	}
	to := string(w.look.text[:n])
	if w.look.followed != nil {
		w.look.followed[name] = to
	}
	return to, nil
}

// jump follows a link of /proc. The kernel made it, and some have no text. Nothing is known of
// the way to its target, so no link is followed from there.
func (w *walk) jump(part string) error {
	fd, err := unix.Openat(w.at, part, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	st, err := statOf(fd)
	if err != nil {
		unix.Close(fd)
		return err
	}
	w.close()
	w.at, w.stat, w.path = fd, st, filepath.Join(w.path, part)
	w.inside, w.safe = w.look.foreign[st.Mnt_id], false
	return nil
}

// statOf returns mode, owner and mount ID of an open file.
func statOf(fd int) (unix.Statx_t, error) {
	const mask = unix.STATX_MNT_ID | unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, mask, &st); err != nil {
		return st, fmt.Errorf("statx: %w", err)
	}
	if st.Mask&mask != mask {
		return st, errors.New("statx: this kernel reports no mount IDs, which Linux 5.8 brought")
	}
	return st, nil
}
