package landlock

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// file is a path with what is there.
type file struct {
	Path
	stat unix.Stat_t
}

// kind is one of the S_IF constants.
func (f file) kind() uint32 { return f.stat.Mode & unix.S_IFMT }

// merge looks at the paths, and leaves out each that leads to the same file as another one
// that gives as much: /bin is /usr/bin on most machines, /dev/stdout often /dev/null. The
// kernel would add the rules of one file up, so nothing changes by that, but each costs an
// opening. Two of which neither gives what the other does both stay.
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

// covered says whether another path makes the one at i needless. Of two with the same
// modes the first stays.
func covered(all []file, i int) bool {
	p := &all[i]
	for j := range all {
		q := &all[j]
		if i != j && sameFile(&p.stat, &q.stat) && within(p.Modes, q.Modes) && (j < i || !within(q.Modes, p.Modes)) {
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
