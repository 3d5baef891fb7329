package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// tmpDir is where programs expect room for files that nobody keeps.
const tmpDir = "/tmp"

// mountTmp mounts the program's own directory on /tmp, and on that again what it was
// granted below the host's, and the view if it is there, as with an agent that lives there.
func (p *Policy) mountTmp(look *lookup, view seat) error {
	own, err := p.Mounts.Tmp.open(look)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.Mounts.Tmp, err)
	}
	defer own.Close()
	keep, err := p.keptOfTmp(look, view)
	defer func() { closeAll(keep) }()
	if err != nil {
		return err
	}
	at, err := unix.Open(tmpDir, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", tmpDir, err)
	}
	defer unix.Close(at)
	t, err := copyTree(int(own.Fd()))
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.restrict(false); err != nil {
		return err
	}
	if err := t.attach(at); err != nil {
		return err
	}
	return attachAll(keep, t, tmpDir)
}

// keptOfTmp takes what must stay visible below /tmp. The view goes there as the mount that
// it is, with all that is mounted in it; what is no mount yet is copied.
func (p *Policy) keptOfTmp(look *lookup, view seat) ([]kept, error) {
	places := slices.DeleteFunc(p.granted(tmpDir), isWhole)
	name, err := filepath.Rel(tmpDir, view.Dir)
	if view.tree == noTree || err != nil || !filepath.IsLocal(name) || name == "." {
		return copyKept(look, uppermost(places))
	}
	places = uppermost(append(places, place{Path{Name: view.Dir}, name}))
	i := slices.IndexFunc(places, func(q place) bool { return q.name == name })
	if i < 0 { // granted with more around it
		return copyKept(look, places)
	}
	keep, err := copyKept(look, slices.Delete(places, i, i+1))
	if err != nil {
		return keep, err
	}
	fd, err := unix.FcntlInt(uintptr(view.tree), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return keep, fmt.Errorf("take %s along: %w", view.Dir, err)
	}
	return append(keep, kept{name: name, tree: tree(fd), dir: true}), nil
}
