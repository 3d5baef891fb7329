package landlock

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// merge leaves out each path that leads to the same file as another one that gives as much:
// /bin is /usr/bin on most machines, /dev/stdout often /dev/null. The kernel would add the
// rules of one file up, so nothing changes by that, but each costs an opening. Two of
// which neither gives what the other does both stay.
func (r Ruleset) merge() ([]Path, error) {
	files := make([]unix.Stat_t, len(r.Paths))
	for i, p := range r.Paths {
		if err := unix.Fstat(p.FD, &files[i]); err != nil {
			return nil, fmt.Errorf("stat %s: %w", p.Name, err)
		}
	}
	out := make([]Path, 0, len(r.Paths))
	for i, p := range r.Paths {
		if !r.covered(i, p, files) {
			out = append(out, p)
		}
	}
	return out, nil
}

// covered says whether another path makes the one at i needless. Of two with the same
// modes the first stays.
func (r Ruleset) covered(i int, p Path, files []unix.Stat_t) bool {
	for j, q := range r.Paths {
		if i != j && sameFile(&files[i], &files[j]) && within(p.Modes, q.Modes) && (j < i || !within(q.Modes, p.Modes)) {
			return true
		}
	}
	return false
}

// within says whether all modes of a are among those of b.
func within(a, b string) bool {
	return strings.Trim(a, b) == ""
}

// sameFile compares all that tells files apart: file systems that are no disk's give a
// number twice at times.
func sameFile(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Dev == b.Dev && a.Rdev == b.Rdev && a.Mode == b.Mode && a.Nlink == b.Nlink &&
		a.Uid == b.Uid && a.Gid == b.Gid && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}
