package sandbox

import (
	"errors"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// The stage of a session sees the mounts of the running task, which the job controls. A
// volume may cover the kernel's files. The stage, which runs as root, therefore reads and writes
// only files on the kernel's own file systems.

// errNotKernel means that a path of the kernel's leads to another file system.
var errNotKernel = errors.New("not a file of the kernel: something else is mounted there")

// joinFile makes the calling thread a member of a control group. The name is a path, or the number of a
// descriptor that the starter passed (launch.Start.Join).
func joinFile(name string) error {
	if fd, err := strconv.Atoi(name); err == nil {
		return writeTo(fd, name, "0", unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC)
	}
	fd, err := safefs.OpenNoLinks(name, unix.O_WRONLY)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	return writeTo(fd, name, "0", unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC)
}

// writeProc writes a small file of /proc. It bypasses package os, which would start the poller.
func writeProc(name, value string) error {
	fd, err := openProc(name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	return writeTo(fd, name, value, unix.PROC_SUPER_MAGIC)
}

// readProc reads a small file of /proc.
func readProc(name string) (string, error) {
	fd, err := openProc(name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if !isOn(fd, unix.PROC_SUPER_MAGIC) {
		return "", &os.PathError{Op: "read", Path: name, Err: errNotKernel}
	}
	buf := make([]byte, 128)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return "", &os.PathError{Op: "read", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

func openProc(name string, how int) (int, error) {
	fd, err := unix.Open(name, how|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// writeTo writes to a file on a file system of the kernel, and closes it.
func writeTo(fd int, name, value string, systems ...int64) error {
	defer unix.Close(fd)
	if !isOn(fd, systems...) {
		return &os.PathError{Op: "write", Path: name, Err: errNotKernel}
	}
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// isOn reports whether a file is on one of the file systems.
func isOn(fd int, systems ...int64) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && slices.Contains(systems, st.Type)
}

// unreachable reports whether Landlock has no rules for a file and does not restrict it: pipes and
// sockets have no path. /dev/stdout can be one.
func unreachable(fd int) bool {
	return isOn(fd, unix.PIPEFS_MAGIC, unix.SOCKFS_MAGIC, unix.ANON_INODE_FS_MAGIC)
}
