package safefs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Tmpfs describes a tmpfs.
type Tmpfs struct {
	SizeMB   int
	Mode     uint32
	UID, GID int
}

// MountTmpfs mounts a tmpfs on the directory name, one level down. It is noexec, nosuid, nodev and,
// where the kernel supports it, never swapped out. Source and target are descriptors, so no path
// can be exchanged in between.
func (d *Dir) MountTmpfs(name string, t Tmpfs) error {
	if err := single(name); err != nil {
		return err
	}
	fs, err := newTmpfs(t)
	if err != nil {
		return d.fail("mount tmpfs on", name, err)
	}
	defer unix.Close(fs)
	target, err := d.Sub(name)
	if err != nil {
		return err
	}
	defer target.Close()
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	if err := unix.MoveMount(fs, "", target.FD(), "", flags); err != nil {
		return d.fail("mount on", name, fmt.Errorf("move_mount: %w", err))
	}
	return nil
}

// newTmpfs creates a tmpfs that is not mounted yet.
func newTmpfs(t Tmpfs) (int, error) {
	fsfd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fsfd)
	for _, option := range [][2]string{
		{"size", fmt.Sprintf("%dM", t.SizeMB)},
		{"mode", fmt.Sprintf("%o", t.Mode)},
		{"uid", fmt.Sprint(t.UID)},
		{"gid", fmt.Sprint(t.GID)},
		{"source", "nomad-secrets"},
	} {
		if err := unix.FsconfigSetString(fsfd, option[0], option[1]); err != nil {
			return -1, fmt.Errorf("set %s=%s: %w", option[0], option[1], err)
		}
	}
	// Kernels before 6.4 do not support noswap. Secrets may then reach swap, as on any file system.
	_ = unix.FsconfigSetFlag(fsfd, "noswap")
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return -1, fmt.Errorf("create: %w", err)
	}
	attrs := unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	mfd, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return mfd, nil
}

// Bind bind-mounts the object behind the descriptor source, such as a namespace, on the file or
// directory name, one level down.
func (d *Dir) Bind(source int, name string) error {
	if err := single(name); err != nil {
		return err
	}
	target, err := d.openat(name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	tree, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return d.fail("open tree for", name, err)
	}
	defer unix.Close(tree)
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	if err := unix.MoveMount(tree, "", target, "", flags); err != nil {
		return d.fail("mount on", name, err)
	}
	return nil
}

// Mounted reports whether the file or directory name, one level down, is a mount point. It does not call the server of a
// file system, which may be gone or hang.
func (d *Dir) Mounted(name string) bool {
	var above, below unix.Statx_t
	if single(name) != nil ||
		unix.Statx(d.FD(), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &above) != nil ||
		unix.Statx(d.FD(), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &below) != nil {
		return false
	}
	return above.Mnt_id != below.Mnt_id
}

// Unmount unmounts every file system from the file or directory name, one level down. A busy file
// system is detached and goes away with its last user.
func (d *Dir) Unmount(name string) error {
	for range 16 {
		if !d.Mounted(name) {
			return nil
		}
		if err := d.unmountTop(name, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return d.fail("unmount", name, errors.New("still mounted"))
}

// UnmountTop unmounts the uppermost file system from the file or directory name, one level down. It fails with EBUSY if that
// is in use. A name that is not a mount point is not an error.
func (d *Dir) UnmountTop(name string) error {
	if !d.Mounted(name) {
		return single(name)
	}
	return d.unmountTop(name, 0)
}

func (d *Dir) unmountTop(name string, flags int) error {
	// The parent is a descriptor, and the last element is not followed.
	if err := unix.Unmount(d.proc()+"/"+name, flags|unix.UMOUNT_NOFOLLOW); err != nil {
		return d.fail("unmount", name, err)
	}
	return nil
}
