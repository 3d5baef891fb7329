package devices

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// check replaces the host paths of a reservation by their paths without links, and refuses those that a
// driver must not use.
func check(r *Reservation) error {
	for i := range r.Devices {
		d := &r.Devices[i]
		path, kind, err := settle(d.HostPath)
		if err == nil && kind != unix.S_IFCHR && kind != unix.S_IFBLK {
			err = errors.New("is not a device node")
		}
		if err != nil {
			return fmt.Errorf("device node %s: %w", d.HostPath, err)
		}
		d.HostPath = path
	}
	for i := range r.Mounts {
		m := &r.Mounts[i]
		path, kind, err := settle(m.HostPath)
		if err == nil && kind != unix.S_IFDIR && kind != unix.S_IFREG {
			err = errors.New("is neither a directory nor a regular file: device nodes are reserved as devices")
		}
		if err == nil {
			err = notOfKernel(path)
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.HostPath, err)
		}
		m.HostPath = path
	}
	return nil
}

// ofKernel are the file systems by which the kernel is controlled. Modes do not protect them from a task that has
// capabilities, and the ones that a driver mounts are restricted. A device may have files in sysfs.
var ofKernel = map[int64]string{
	unix.PROC_SUPER_MAGIC: "proc", unix.CGROUP_SUPER_MAGIC: "cgroup", unix.CGROUP2_SUPER_MAGIC: "cgroup2",
	unix.SECURITYFS_MAGIC: "securityfs", unix.DEBUGFS_MAGIC: "debugfs", unix.TRACEFS_MAGIC: "tracefs", unix.BPF_FS_MAGIC: "bpf",
}

// notOfKernel returns an error if a path without links is in one of the file systems of ofKernel.
func notOfKernel(path string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return err
	}
	if name := ofKernel[int64(fs.Type)]; name != "" {
		return fmt.Errorf("is in the file system %s of the kernel, which a plugin cannot give to a task", name)
	}
	return nil
}

// settle returns the path of a file without links, and the type of the file. Drivers, and the daemons
// behind them, open the path again. So no task may be able to change a part of it: it must belong to root or the
// agent, and only they may add or replace entries on the way.
func settle(name string) (real string, kind uint32, err error) {
	fd, err := safefs.OpenFollow(name, unix.O_PATH)
	if err != nil {
		return "", 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", 0, err
	}
	if real, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil {
		return "", 0, err
	}
	again, err := safefs.OpenNoLinks(real, unix.O_PATH)
	if err != nil {
		return "", 0, err
	}
	defer unix.Close(again)
	var same unix.Stat_t
	if err := unix.Fstat(again, &same); err != nil {
		return "", 0, err
	}
	if same.Ino != st.Ino || same.Dev != st.Dev || same.Rdev != st.Rdev {
		return "", 0, errors.New("was replaced while it was opened")
	}
	return real, st.Mode & unix.S_IFMT, safefs.Protected(filepath.Dir(real))
}
