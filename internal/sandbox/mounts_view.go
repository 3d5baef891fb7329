package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// mounted is a mounted view and its mount point: safefs.NoTree if it is not mounted.
type mounted struct {
	View
	tree safefs.Tree
}

// mountView mounts an empty directory on View.Dir, or on a directory around it in /tmp, with the
// program's own directory and the other grants in it. It mounts nothing if View.Dir itself is
// granted.
func (p *Policy) mountView(lookup *lookup) (mounted, error) {
	v := p.Mounts.View
	at, err := lookup.open(v.Dir)
	if err != nil {
		return mounted{tree: safefs.NoTree}, fmt.Errorf("open: %w", err)
	}
	defer at.Close()
	real, err := at.path()
	if err != nil {
		return mounted{tree: safefs.NoTree}, err
	}
	stay := p.staying(v, real)
	if slices.ContainsFunc(stay, isWhole) {
		return mounted{tree: safefs.NoTree}, nil
	}
	wide, ok := p.wider()
	if !ok || real != v.Dir { // a link may lead out of /tmp
		return mountOver(lookup, v, at, stay)
	}
	around, err := lookup.open(wide.Dir)
	if err != nil {
		return mounted{tree: safefs.NoTree}, fmt.Errorf("open: %w", err)
	}
	defer around.Close()
	return mountOver(lookup, wide, around, p.staying(wide, wide.Dir))
}

// wider returns the view from the uppermost directory in /tmp that contains View.Dir, or false if
// the program was granted a directory in between. All of /tmp is hidden in any case. This way only
// one mount point is created in the program's own /tmp, which is on disk.
func (p *Policy) wider() (View, bool) {
	v := p.Mounts.View
	below, err := filepath.Rel(tmpDir, v.Dir)
	if p.Mounts.Tmp == (Path{}) || err != nil || !filepath.IsLocal(below) {
		return v, false
	}
	first, rest, deep := strings.Cut(below, "/")
	wide := View{Dir: filepath.Join(tmpDir, first), Own: filepath.Join(rest, v.Own)}
	return wide, deep && !slices.ContainsFunc(p.granted(wide.Dir), func(q place) bool {
		return isWhole(q) || strings.HasPrefix(rest+"/", q.name+"/")
	})
}

// mountOver mounts a view on its directory, open as at, with the parts that stay.
func mountOver(lookup *lookup, v View, at opened, stay []place) (mounted, error) {
	keep, err := copyKept(lookup, uppermost(stay))
	defer func() { closeAll(keep) }()
	if err != nil {
		return mounted{tree: safefs.NoTree}, err
	}
	t, err := emptyTree()
	if err != nil {
		return mounted{tree: safefs.NoTree}, err
	}
	if err = t.Attach(int(at.Fd())); err == nil {
		err = attachAll(keep, t, v.Dir)
	}
	if err == nil {
		err = seal(t)
	}
	if err != nil {
		t.Close()
		return mounted{tree: safefs.NoTree}, err
	}
	return mounted{v, t}, nil
}

// staying lists the grants in the directory of a view. Grants may use the view's name or real, its
// path without links.
func (p *Policy) staying(v View, real string) []place {
	stay := append(p.granted(v.Dir), place{Path{Name: v.Own, Beneath: v.Dir}, v.Own})
	if real != v.Dir {
		stay = append(stay, p.granted(real)...)
	}
	return stay
}

// hardened are the flags of file systems that programs only read or write.
const hardened = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// emptyTree returns an empty detached tmpfs.
func emptyTree() (safefs.Tree, error) {
	return safefs.NewTree("tmpfs", hardened, [2]string{"mode", strconv.FormatUint(passMode, 8)})
}

// seal makes the mount itself read-only, but not the mounts below it.
func seal(t safefs.Tree) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(int(t), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return safefs.SyscallError("mount_setattr", "5.12", err)
	}
	return nil
}
