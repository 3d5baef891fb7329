package sandbox

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// kernelDirs are the directories of a Root that the kernel fills.
var kernelDirs = []string{"/dev", "/proc", "/sys"}

// deviceFiles are the devices of a Root: major and minor number.
var deviceFiles = map[string][2]uint32{
	"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0},
}

var deviceLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}

// Files of /proc that concern the whole machine. Those of root are in the list too: programs with the capability
// DAC_OVERRIDE could open them.
var (
	procReadOnly = []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "driver", "mtrr"}
	procMasked   = []string{"kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug", "acpi", "asound", "scsi",
		"kpagecgroup", "kpagecount", "kpageflags", "pagetypeinfo", "slabinfo", "vmallocinfo", "allocinfo"}
)

// sysMasked are the files of /sys that concern the whole machine. The counters of powercap show what other programs
// compute.
var sysMasked = []string{"firmware", "devices/virtual/powercap"}

// mountKernel mounts /dev, /proc and /sys.
func (a *assembly) mountKernel() error {
	dev, err := safefs.NewTree("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, [2]string{"mode", "755"}, [2]string{"size", "65536"})
	if err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	defer dev.Close()
	if err := a.mountDev(dev); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	mask := masks{dev: dev}
	if err := a.mountProc(mask); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := a.mountSys(mask); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	return nil
}

// mount mounts a file system on a directory of the root, which is created if it is missing.
func (a *assembly) mount(t safefs.Tree, name string) error {
	at, err := a.point(mountPoint{name, true, 0o755})
	if err != nil {
		return fmt.Errorf("open the mount point: %w", err)
	}
	defer unix.Close(at)
	return t.Attach(at)
}

// mountDev fills /dev. It is read-only at the end: a program with the capabilities to make a device could
// otherwise make one here.
func (a *assembly) mountDev(dev safefs.Tree) error {
	if err := a.mount(dev, "dev"); err != nil {
		return err
	}
	for name, number := range deviceFiles {
		if err := makeDevice(int(dev), name, unix.Mkdev(number[0], number[1])); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	for name, to := range deviceLinks {
		if err := unix.Symlinkat(to, int(dev), name); err != nil {
			return fmt.Errorf("make the link %s: %w", name, err)
		}
	}
	for _, fs := range []struct {
		dir, kind string
		flags     int
		options   [][2]string
	}{
		{"pts", "devpts", unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, [][2]string{{"ptmxmode", "0666"}, {"mode", "0620"}, {"gid", "5"}}},
		{"shm", "tmpfs", hardened, [][2]string{{"mode", "1777"}, {"size", "67108864"}}}, // 64 MiB
		{"mqueue", "mqueue", hardened, nil},
	} {
		t, err := safefs.NewTree(fs.kind, fs.flags, fs.options...)
		if err == nil {
			err = a.mount(t, path.Join("dev", fs.dir))
			t.Close()
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", fs.dir, err)
		}
	}
	for _, d := range a.devices {
		if err := a.bind(d.Bind, d.source); err != nil {
			return fmt.Errorf("mount %s: %w", d.Bind, err)
		}
	}
	return seal(dev)
}

// makeDevice makes a character device that every user may read and write.
func makeDevice(dir int, name string, number uint64) error {
	if err := unix.Mknodat(dir, name, unix.S_IFCHR|0o666, int(number)); err != nil {
		return err
	}
	return unix.Fchmodat(dir, name, 0o666, 0) // whatever the umask is
}

// masks hide files and directories of the kernel: a file by null of dev, a directory by an empty one.
type masks struct{ dev safefs.Tree }

// hide hides a file or a directory of a kernel file system, if it exists.
func (m masks) hide(fs safefs.Tree, name string) error {
	at, err := safefs.OpenBeneath(int(fs), name, unix.O_PATH)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", name, err)
	}
	defer unix.Close(at)
	t, err := m.cover(isDir(at))
	if err == nil {
		err = t.Attach(at)
		t.Close()
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", name, err)
	}
	return nil
}

// cover returns a mount of an empty read-only directory, or of null. A mount that is not attached cannot be copied
// before Linux 6.15, so that each directory has its own.
func (m masks) cover(dir bool) (safefs.Tree, error) {
	if dir {
		t, err := emptyTree()
		if err == nil {
			err = seal(t)
		}
		return t, err
	}
	null, err := safefs.OpenBeneath(int(m.dev), "null", unix.O_PATH)
	if err != nil {
		return safefs.NoTree, err
	}
	defer unix.Close(null)
	return safefs.CopyMount(null)
}

// mountProc mounts a /proc of the program's PID namespace. It shows all processes of the namespace, so that those of
// sessions see the program: to trace each other is refused, which hidepid needs.
func (a *assembly) mountProc(mask masks) (err error) {
	if a.proc, err = safefs.NewTree("proc", hardened); err == nil {
		err = a.mount(a.proc, "proc")
	}
	if err != nil {
		return err
	}
	for _, name := range procReadOnly {
		if err := fixReadOnly(a.proc, name); err != nil {
			return fmt.Errorf("make %s read-only: %w", name, err)
		}
	}
	for _, name := range procMasked {
		if err := mask.hide(a.proc, name); err != nil {
			return err
		}
	}
	return nil
}

// fixReadOnly makes a part of a file system read-only, if it exists.
func fixReadOnly(fs safefs.Tree, name string) error {
	at, err := safefs.OpenBeneath(int(fs), name, unix.O_PATH)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	t, err := safefs.CopyMount(at)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := restrict(t, true); err != nil {
		return err
	}
	return t.Attach(at)
}

// mountSys mounts a read-only /sys.
func (a *assembly) mountSys(mask masks) error {
	sys, err := safefs.NewTree("sysfs", hardened|unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return err
	}
	defer sys.Close()
	if err := a.mount(sys, "sys"); err != nil {
		return err
	}
	for _, name := range sysMasked {
		if err := mask.hide(sys, name); err != nil {
			return err
		}
	}
	return nil
}
