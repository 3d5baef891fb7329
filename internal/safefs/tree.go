package safefs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Tree is a descriptor of a detached copy of a part of the file tree, before or after it is mounted. A
// path is not used again after the copy, so nobody can exchange what is mounted.
type Tree int

// NoTree is the absent tree.
const NoTree Tree = -1

// TreeAttrs are the attributes of all mounts of a tree.
type TreeAttrs struct {
	ReadOnly    bool
	WritableTop bool // ReadOnly applies only to the mounts below the top
	Trusted     bool // setuid programs and device files work
	Setuid      bool // setuid programs work
	Devices     bool // device files work
	// Users is the descriptor of a user namespace, 0 for none. Files whose owner or group is not mapped there
	// have no owner: neither owner, group nor a capability gives access to them, only the bits for others.
	Users int
	// Propagation is unix.MS_PRIVATE or unix.MS_SLAVE. 0 keeps that of the original mounts.
	Propagation uint64
}

// CopyTree copies the tree below fd, opened with O_PATH, including its mounts.
func CopyTree(fd int) (Tree, error) {
	t, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return NoTree, SyscallError("open_tree", "5.2", err)
	}
	return Tree(t), nil
}

// CopyMount copies the part of one mount below fd, without the mounts on it.
func CopyMount(fd int) (Tree, error) {
	t, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return NoTree, SyscallError("open_tree", "5.2", err)
	}
	return Tree(t), nil
}

// NewTree returns a detached file system of a kind, with mount options and MOUNT_ATTR_ flags.
func NewTree(kind string, flags int, options ...[2]string) (Tree, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return NoTree, SyscallError("fsopen "+kind, "5.2", err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return NoTree, fmt.Errorf("fsconfig %s=%s: %w", o[0], o[1], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return NoTree, fmt.Errorf("fsconfig create: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, flags)
	if err != nil {
		return NoTree, fmt.Errorf("fsmount: %w", err)
	}
	return Tree(fd), nil
}

// Close closes the descriptor. A mounted tree stays mounted.
func (t Tree) Close() {
	if t != NoTree {
		unix.Close(int(t))
	}
}

// ErrNoIDMap means that a file system cannot show files with other owners (mount_setattr(2), MOUNT_ATTR_IDMAP).
var ErrNoIDMap = errors.New("its file system does not support ID-mapped mounts")

// Restrict sets attributes on all mounts of the tree, and verifies the flags.
func (t Tree) Restrict(a TreeAttrs) error {
	attr := unix.MountAttr{Propagation: a.Propagation}
	var want int64
	if !a.Trusted && !a.Setuid {
		attr.Attr_set |= unix.MOUNT_ATTR_NOSUID
		want |= unix.ST_NOSUID
	}
	if !a.Trusted && !a.Devices {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
		want |= unix.ST_NODEV
	}
	if a.Users > 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(a.Users)
	}
	if a.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		want |= unix.ST_RDONLY
	}
	wasReadOnly, err := t.readOnly()
	if err != nil {
		return err
	}
	if attr == (unix.MountAttr{}) {
		return nil
	}
	switch err := unix.MountSetattr(int(t), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); {
	case a.Users > 0 && errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: %w", SyscallError("mount_setattr", "5.12", err), ErrNoIDMap)
	case err != nil:
		return SyscallError("mount_setattr", "5.12", err)
	}
	if a.ReadOnly && a.WritableTop && !wasReadOnly {
		want &^= unix.ST_RDONLY
		top := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(int(t), "", unix.AT_EMPTY_PATH, &top); err != nil {
			return SyscallError("mount_setattr", "5.12", err)
		}
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(t), &fs); err != nil {
		return fmt.Errorf("fstatfs: %w", err)
	}
	if int64(fs.Flags)&want != want {
		return fmt.Errorf("mount flags are %#x, want %#x", fs.Flags, want)
	}
	return nil
}

// readOnly reports whether the top mount of the tree is read-only.
func (t Tree) readOnly() (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(t), &fs); err != nil {
		return false, fmt.Errorf("fstatfs: %w", err)
	}
	return int64(fs.Flags)&unix.ST_RDONLY != 0, nil
}

// Attach mounts the tree on the directory or file of fd.
func (t Tree) Attach(fd int) error {
	err := unix.MoveMount(int(t), "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return SyscallError("move_mount", "5.2", err)
	}
	return nil
}

// BindTree mounts what the descriptor source has, with the mounts below it, on the file or directory
// name, one level down.
func (d *Dir) BindTree(source int, name string, attrs TreeAttrs) error {
	if err := single(name); err != nil {
		return err
	}
	target, err := d.openat(name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	tree, err := CopyTree(source)
	if err == nil {
		defer tree.Close()
		err = tree.Restrict(attrs)
	}
	if err == nil {
		err = tree.Attach(target)
	}
	if err != nil {
		return d.fail("mount on", name, err)
	}
	return nil
}

// Isolate ends the propagation of mounts from name, one level down, and from the mounts below it. A
// shared tree must be isolated before it is unmounted: the original would lose its mounts too.
func (d *Dir) Isolate(name string) error {
	if err := single(name); err != nil {
		return err
	}
	attr := unix.MountAttr{Propagation: unix.MS_SLAVE}
	err := unix.MountSetattr(d.FD(), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_RECURSIVE, &attr)
	if err != nil {
		return d.fail("isolate", name, SyscallError("mount_setattr", "5.12", err))
	}
	return nil
}

// SyscallError adds the name of a failed call and, for ENOSYS, the kernel that introduced it.
func SyscallError(call, since string, err error) error {
	if err == unix.ENOSYS {
		return fmt.Errorf("%s: not supported by this kernel, needs Linux %s: %w", call, since, err)
	}
	return fmt.Errorf("%s: %w", call, err)
}
