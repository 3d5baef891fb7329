package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// tmpDir is the directory of temporary files.
const tmpDir = "/tmp"

// mountTmp mounts the program's own directory on /tmp. On top of it, it mounts the grants below the
// host's /tmp, and the view if it is there.
func (p *Policy) mountTmp(lookup *lookup, view mounted) error {
	own, err := p.Mounts.Tmp.open(lookup)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.Mounts.Tmp, err)
	}
	defer own.Close()
	keep, err := p.keptOfTmp(lookup, view)
	defer func() { closeAll(keep) }()
	if err != nil {
		return err
	}
	at, err := unix.Open(tmpDir, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", tmpDir, err)
	}
	defer unix.Close(at)
	t, err := safefs.CopyTree(int(own.Fd()))
	if err != nil {
		return err
	}
	defer t.Close()
	if err := restrict(t, false); err != nil {
		return err
	}
	if err := t.Attach(at); err != nil {
		return err
	}
	return attachAll(keep, t, tmpDir)
}

// keptOfTmp returns the parts that must stay visible below /tmp. The view is moved with its mounts;
// anything that is not a mount yet is copied.
func (p *Policy) keptOfTmp(lookup *lookup, view mounted) ([]kept, error) {
	places := slices.DeleteFunc(p.granted(tmpDir), isWhole)
	name, err := filepath.Rel(tmpDir, view.Dir)
	if view.tree == safefs.NoTree || err != nil || !filepath.IsLocal(name) || name == "." {
		return copyKept(lookup, uppermost(places))
	}
	places = uppermost(append(places, place{Path{Name: view.Dir}, name}))
	i := slices.IndexFunc(places, func(q place) bool { return q.name == name })
	if i < 0 { // a directory around it was granted
		return copyKept(lookup, places)
	}
	keep, err := copyKept(lookup, slices.Delete(places, i, i+1))
	if err != nil {
		return keep, err
	}
	fd, err := unix.FcntlInt(uintptr(view.tree), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return keep, fmt.Errorf("move %s: %w", view.Dir, err)
	}
	return append(keep, kept{name: name, tree: safefs.Tree(fd), dir: true}), nil
}
