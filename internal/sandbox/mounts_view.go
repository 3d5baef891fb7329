package sandbox

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// mountView shows an empty directory at View.Dir, with the program's own in it and what
// else it was granted there. It returns what is mounted at View.Dir, or noTree if that is
// granted as a whole and stays.
func (p *Policy) mountView(look *lookup) (tree, error) {
	v := p.Mounts.View
	at, err := look.open(v.Dir)
	if err != nil {
		return noTree, fmt.Errorf("open: %w", err)
	}
	defer at.Close()
	stay, err := p.staying(at)
	if err != nil || slices.ContainsFunc(stay, isWhole) {
		return noTree, err
	}
	keep, err := copyKept(look, uppermost(stay))
	defer func() { closeAll(keep) }()
	if err != nil {
		return noTree, err
	}
	t, err := emptyTree()
	if err != nil {
		return noTree, err
	}
	if err = t.attach(int(at.Fd())); err == nil {
		err = attachAll(keep, t, v.Dir)
	}
	if err == nil {
		err = t.seal()
	}
	if err != nil {
		t.close()
		return noTree, err
	}
	return t, nil
}

// staying lists what stays in the directory of the view, which is open as at: grants name
// it as the view does, or without links.
func (p *Policy) staying(at opened) ([]place, error) {
	v := p.Mounts.View
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", at.Fd()))
	if err != nil {
		return nil, fmt.Errorf("look where it is: %w", err)
	}
	stay := append(p.granted(v.Dir), place{Path{Name: v.Own, Beneath: v.Dir}, v.Own})
	if real != v.Dir {
		stay = append(stay, p.granted(real)...)
	}
	return stay, nil
}

// viewMode lets everybody pass, as through the directory that is hidden, and nobody look
// around.
const viewMode = "0711"

// emptyTree is a directory in memory with nothing in it yet.
func emptyTree() (tree, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return noTree, syscallError("fsopen", "5.2", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "mode", viewMode); err != nil {
		return noTree, fmt.Errorf("fsconfig mode=%s: %w", viewMode, err)
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
