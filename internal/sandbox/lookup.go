package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// maxLinks limits the links in a path, as in the kernel.
const maxLinks = 40

// errHidden means that a path does not exist in a foreign mount, or passes through a link there.
var errHidden = errors.New("a mount there hides it")

// opened is a descriptor opened with O_PATH. Package os would add a stat and a finalizer to each of
// the 40 that a start opens.
type opened int

func (o opened) Fd() uintptr { return uintptr(o) }
func (o opened) Close()      { unix.Close(int(o)) }

// lookup resolves paths in a tree where other users may have created symbolic links. It follows a
// link only if root alone can have created or moved it: root owns the link and every directory of
// the path, and only root can replace an entry in these directories. In a foreign mount (a volume, the
// program's /tmp) it follows no link.
type lookup struct {
	foreign map[uint64]bool // mount IDs
	root    uint64          // mount ID of /, 0 before it is read
	text    []byte          // buffer for the target of a link, made for the first one

	links    map[string]string // Policy.Links
	followed map[string]string // the links that were followed; nil keeps none
}

// linkError is the path of a link that is not followed.
type linkError string

func (e linkError) Error() string {
	return string(e) + " is a symbolic link that is not owned by root or that others can replace: use its target instead: " +
		unix.ELOOP.Error()
}

func (e linkError) Unwrap() error { return unix.ELOOP }

// add marks the mount at a path as foreign.
func (l *lookup) add(point string) error {
	f, err := l.open(point)
	if err != nil {
		return fmt.Errorf("stat %s: %w", point, err)
	}
	defer f.Close()
	st, err := statOf(int(f.Fd()))
	if err != nil {
		return fmt.Errorf("stat %s: %w", point, err)
	}
	if l.foreign == nil {
		l.foreign = map[uint64]bool{}
	}
	l.foreign[st.Mnt_id] = true
	return nil
}

// open opens an absolute path with O_PATH.
func (l *lookup) open(name string) (opened, error) {
	fd, err := safefs.OpenNoLinks(name, unix.O_PATH)
	if err == nil || err == unix.ENOENT && l.onRoot(name) {
		return opened(fd), err
	}
	w := &walk{lookup: l, at: -1}
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

// onRoot reports whether the path, which does not exist, passes through neither a link nor a mount
// other than that of /. Then it is not in a foreign mount.
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
	fd, err := safefs.OpenNoLinksNoXDev(name, unix.O_PATH)
	if err == nil {
		unix.Close(fd)
	}
	return err == unix.ENOENT
}

// rootOwned reports whether root owns a file. In the user namespace of OwnUsers it is always false:
// files of root and of other users have the overflow uid there. Only Policy.Links are followed
// then.
func rootOwned(st *unix.Statx_t) bool { return st.Uid == 0 }

// fixed reports whether root alone can replace the entry child of the directory dir.
func fixed(dir, child *unix.Statx_t) bool {
	if !rootOwned(child) {
		return false
	}
	if dir.Mode&0o022 == 0 {
		return true
	}
	// The sticky bit protects the directories of root. A link could be a hard link to another one.
	return dir.Mode&unix.S_ISVTX != 0 && child.Mode&unix.S_IFMT == unix.S_IFDIR
}

// walk is one lookup, one component at a time.
type walk struct {
	lookup *lookup
	at     int          // descriptor of the current directory
	stat   unix.Statx_t // of at
	path   string       // of at, for errors
	rest   []string     // remaining components
	inside bool         // a foreign mount was entered
	safe   bool         // root alone can have created the path so far
	links  int
}

func (w *walk) close() {
	if w.at >= 0 {
		unix.Close(w.at)
	}
}

// restart continues at the root, with the components of name and the remaining ones.
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
	w.inside, w.safe = w.lookup.foreign[w.stat.Mnt_id], rootOwned(&w.stat)
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
	w.inside = w.inside || w.lookup.foreign[st.Mnt_id]
	w.close()
	w.at, w.stat, w.path = next, st, filepath.Join(w.path, part)
	return nil
}

// follow continues at the target of the link part, open as link.
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

// target returns the target of the link name, open as fd.
func (w *walk) target(name string, fd int, st *unix.Statx_t) (string, error) {
	if to, ok := w.lookup.links[name]; ok {
		return to, nil
	}
	if !w.safe || !fixed(&w.stat, st) {
		return "", linkError(name)
	}
	if w.lookup.text == nil {
		w.lookup.text = make([]byte, unix.PathMax)
	}
	n, err := unix.Readlinkat(fd, "", w.lookup.text)
	if err != nil {
		return "", err
	}
	to := string(w.lookup.text[:n])
	if w.lookup.followed != nil {
		w.lookup.followed[name] = to
	}
	return to, nil
}

// jump follows a magic link of /proc, some of which have no text. The path to its target is
// unknown, so no link is followed after it.
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
	w.inside, w.safe = w.lookup.foreign[st.Mnt_id], false
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
		return st, errors.New("statx: this kernel reports no mount IDs, which need Linux 5.8")
	}
	return st, nil
}
