package landlock

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// file is a path and its stat.
type file struct {
	Path
	stat unix.Stat_t
}

// kind is one of the S_IF constants.
func (f file) kind() uint32 { return f.stat.Mode & unix.S_IFMT }

// merge stats the paths, and drops each path whose file is also granted by another path with at
// least the same modes. /bin is /usr/bin on most machines, and /dev/stdout is often /dev/null. The
// result is the same, since the kernel merges the rules of a file, but each path costs an open. Two
// paths with different modes both stay.
func merge(paths []Path) ([]file, error) {
	all := make([]file, len(paths))
	for i, p := range paths {
		all[i].Path = p
		if err := unix.Fstat(p.FD, &all[i].stat); err != nil {
			return nil, fmt.Errorf("stat %s: %w", p.Name, err)
		}
	}
	out := make([]file, 0, len(all))
	for i := range all {
		if !covered(all, i) {
			out = append(out, all[i])
		}
	}
	return out, nil
}

// covered reports whether another path makes the one at i redundant. Of two paths with the same
// modes the first stays.
func covered(all []file, i int) bool {
	p := &all[i]
	for j := range all {
		q := &all[j]
		if i != j && sameFile(&p.stat, &q.stat) && p.within(q) && (j < i || !q.within(p)) {
			return true
		}
	}
	return false
}

// within reports whether q has all rights of f.
func (f *file) within(q *file) bool {
	return strings.Trim(f.Modes, q.Modes) == "" && (q.Device || !f.Device)
}

// sameFile compares more than device and inode, since some virtual file systems use an inode number
// twice.
func sameFile(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Dev == b.Dev && a.Rdev == b.Rdev && a.Mode == b.Mode && a.Nlink == b.Nlink &&
		a.Uid == b.Uid && a.Gid == b.Gid && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}
