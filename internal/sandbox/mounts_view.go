package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// seat is a view that is mounted, and where: noTree if it is not.
type seat struct {
	View
	tree tree
}

// mountView shows an empty directory at View.Dir, or around it in /tmp, with the program's
// own in it and what else it was granted there. Nothing is mounted if View.Dir is granted as
// a whole.
func (p *Policy) mountView(look *lookup) (seat, error) {
	v := p.Mounts.View
	at, err := look.open(v.Dir)
	if err != nil {
		return seat{tree: noTree}, fmt.Errorf("open: %w", err)
	}
	defer at.Close()
	real, err := at.path()
	if err != nil {
		return seat{tree: noTree}, err
	}
	stay := p.staying(v, real)
	if slices.ContainsFunc(stay, isWhole) {
		return seat{tree: noTree}, nil
	}
	wide, ok := p.wider()
	if !ok || real != v.Dir { // there may be a link on the way out of /tmp
		return mountOver(look, v, at, stay)
	}
	around, err := look.open(wide.Dir)
	if err != nil {
		return seat{tree: noTree}, fmt.Errorf("open: %w", err)
	}
	defer around.Close()
	return mountOver(look, wide, around, p.staying(wide, wide.Dir))
}

// wider is the view from the uppermost directory in /tmp that holds View.Dir, false if the
// program was granted one of those between. All of /tmp will be hidden in any case, and
// so there is one mount point to make in the program's own, which is on disk.
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

// mountOver mounts a view on its directory, which is open as at, with what stays there.
func mountOver(look *lookup, v View, at opened, stay []place) (seat, error) {
	keep, err := copyKept(look, uppermost(stay))
	defer func() { closeAll(keep) }()
	if err != nil {
		return seat{tree: noTree}, err
	}
	t, err := emptyTree()
	if err != nil {
		return seat{tree: noTree}, err
	}
	if err = t.attach(int(at.Fd())); err == nil {
		err = attachAll(keep, t, v.Dir)
	}
	if err == nil {
		err = t.seal()
	}
	if err != nil {
		t.close()
		return seat{tree: noTree}, err
	}
	return seat{v, t}, nil
}

// staying lists what stays in the directory of a view, whose path without links is real:
// grants name it as the view does, or so.
func (p *Policy) staying(v View, real string) []place {
	stay := append(p.granted(v.Dir), place{Path{Name: v.Own, Beneath: v.Dir}, v.Own})
	if real != v.Dir {
		stay = append(stay, p.granted(real)...)
	}
	return stay
}

// emptyTree is a directory in memory with nothing in it yet.
func emptyTree() (tree, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return noTree, syscallError("fsopen", "5.2", err)
	}
	defer unix.Close(fs)
	mode := strconv.FormatUint(passMode, 8)
	if err := unix.FsconfigSetString(fs, "mode", mode); err != nil {
		return noTree, fmt.Errorf("fsconfig mode=%s: %w", mode, err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return noTree, fmt.Errorf("fsconfig create: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return noTree, fmt.Errorf("fsmount: %w", err)
	}
	return tree(fd), nil
}

// seal makes the mount itself read-only, and nothing that is mounted below it.
func (t tree) seal() error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(int(t), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return syscallError("mount_setattr", "5.12", err)
	}
	return nil
}
