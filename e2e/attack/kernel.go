package attack

import (
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// kernelOperations use interfaces of the kernel itself.
var kernelOperations = []Operation{
	{Name: "kernel/bpf", try: func(*Targets) error { return call(unix.SYS_BPF, unix.BPF_MAP_CREATE, addr(&bpfArray), 32) }},
	{Name: "kernel/io-uring", try: func(*Targets) error {
		var params [120]byte
		return call(unix.SYS_IO_URING_SETUP, 1, addr(&params))
	}},
	{Name: "kernel/perf", try: func(*Targets) error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unix.PERF_ATTR_SIZE_VER1), Config: unix.PERF_COUNT_SW_CPU_CLOCK}
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
		return err
	}},
	{Name: "kernel/userfaultfd", try: func(*Targets) error { return call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC) }},
	{Name: "kernel/keyring-read", try: func(*Targets) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
		return err
	}},
	{Name: "kernel/keyring-add", try: func(*Targets) error {
		_, err := unix.AddKey("user", "probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	}},
	{Name: "kernel/key-request", try: func(*Targets) error {
		_, err := unix.RequestKey("user", "probe", "", unix.KEY_SPEC_PROCESS_KEYRING)
		return reached(err, unix.ENOKEY)
	}},
	{Name: "kernel/module-load", try: func(*Targets) error {
		return reached(call(unix.SYS_INIT_MODULE, 0, 0, addr(cstring(""))), unix.ENOEXEC, unix.EFAULT)
	}},
	{Name: "kernel/module-load-file", try: func(*Targets) error {
		return reached(call(unix.SYS_FINIT_MODULE, ^uintptr(0), addr(cstring("")), 0), unix.EBADF)
	}},
	{Name: "kernel/module-remove", try: func(*Targets) error {
		return reached(call(unix.SYS_DELETE_MODULE, addr(cstring("no_such_module")), unix.O_NONBLOCK), unix.ENOENT)
	}},
	{Name: "kernel/kexec", try: func(*Targets) error { return reached(call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0xffff), unix.EINVAL) }},
	{Name: "kernel/reboot", try: func(*Targets) error { return reached(call(unix.SYS_REBOOT, 1, 2, 3, 0), unix.EINVAL) }},
	{Name: "kernel/swap", try: func(*Targets) error { return reached(call(unix.SYS_SWAPON, addr(cstring("/no/such")), 0), unix.ENOENT) }},
	{Name: "kernel/accounting", try: func(*Targets) error { return reached(call(unix.SYS_ACCT, addr(cstring("/no/such"))), unix.ENOENT) }},
	{Name: "kernel/log", try: func(*Targets) error { _, err := unix.Klogctl(3, make([]byte, 64)); return err }},
	{Name: "kernel/clock", try: func(*Targets) error { return call(unix.SYS_SETTIMEOFDAY, 0, 0) }},
	{Name: "kernel/clock-adjust", try: func(*Targets) error {
		var tx unix.Timex
		_, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &tx)
		return err
	}},
	{Name: "kernel/host-name", try: setHostname},
	{Name: "kernel/personality", try: func(*Targets) error { return call(unix.SYS_PERSONALITY, 0x0040000) }},
	{Name: "kernel/handle", try: openHandle},
	{Name: "kernel/fanotify", try: func(*Targets) error { _, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT, 0); return err }},
	{Name: "kernel/legacy-call", try: func(*Targets) error {
		const getpid = 20
		return int80(getpid)
	}},
	{Name: "kernel/x32-call", try: func(*Targets) error { return call(0x40000000 + unix.SYS_GETPID) }},
	{Name: "kernel/clone3", try: func(*Targets) error { return reached(call(unix.SYS_CLONE3, 0, 0), unix.EINVAL, unix.EFAULT) }},
	{Name: "kernel/quota", try: func(t *Targets) error {
		return reached(call(unix.SYS_QUOTACTL, 0x800001<<8, 0, 0, 0), unix.ENODEV, unix.ENOENT)
	}},
	{Name: "kernel/terminal-hangup", try: func(*Targets) error { return call(unix.SYS_VHANGUP) }},
	{Name: "kernel/landlock", Why: "it can only take more away from itself", try: func(*Targets) error {
		return call(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)
	}},
	{Name: "kernel/seccomp", Why: "it can only take more away from itself: with a listener another program decides, also its own child", try: func(*Targets) error {
		const actionAvail = 2
		action := uint32(unix.SECCOMP_RET_ERRNO)
		return call(unix.SYS_SECCOMP, actionAvail, 0, addr(&action))
	}},
}

// bpfArray is the start of union bpf_attr: an array of one entry.
var bpfArray = [8]uint32{2, 4, 4, 1}

func setHostname(*Targets) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return unix.Sethostname([]byte(name))
}

// openHandle opens a file by its handle, which skips the permission checks of directories.
func openHandle(t *Targets) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, t.in(plainFile), 0)
	if err != nil {
		return err
	}
	dir, err := unix.Open(t.Dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
	return reached(err, unix.EBADF) // EBADF means that the permission check passed
}

// namespaceOperations create or enter namespaces.
var namespaceOperations = join(unshares("unshare", func(flag uintptr) error {
	return inChild(unix.SYS_UNSHARE, flag) // CLONE_NEWUSER requires a process with one thread (unshare(2))
}), unshares("clone", cloneWith), []Operation{
	{Name: "namespace/set-own-net", try: func(*Targets) error { return enter("/proc/self/ns/net", unix.CLONE_NEWNET) }},
	{Name: "namespace/set-by-pidfd", try: func(t *Targets) error {
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err != nil {
			return err
		}
		runtime.LockOSThread()
		return unix.Setns(fd, unix.CLONE_NEWUTS)
	}},
	{Name: "namespace/unshare-files", Why: "a thread with its own table of descriptors gains nothing", try: func(*Targets) error {
		runtime.LockOSThread()
		return call(unix.SYS_UNSHARE, unix.CLONE_FILES)
	}},
})

func unshares(how string, try func(flag uintptr) error) []Operation {
	var out []Operation
	for _, ns := range []struct {
		name string
		flag uintptr
	}{{"user", unix.CLONE_NEWUSER}, {"mount", unix.CLONE_NEWNS}, {"net", unix.CLONE_NEWNET}, {"pid", unix.CLONE_NEWPID},
		{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"cgroup", unix.CLONE_NEWCGROUP}, {"user-and-mount", unix.CLONE_NEWUSER | unix.CLONE_NEWNS}} {
		out = append(out, Operation{Name: "namespace/" + how + "-" + ns.name, try: func(*Targets) error { return try(ns.flag) }})
	}
	if how == "unshare" { // clone uses the bit for another flag
		out = append(out, Operation{Name: "namespace/unshare-time", try: func(*Targets) error { return try(unix.CLONE_NEWTIME) }})
	}
	return out
}

// cloneWith creates a child that exits at once.
func cloneWith(flag uintptr) error {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flag|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// inChild makes a system call in a child that does nothing else.
func inChild(nr, arg uintptr) error {
	runtime.LockOSThread()
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		_, _, e := unix.RawSyscall(nr, arg, 0, 0)
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(e), 0, 0)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(int(pid), &ws, 0, nil); err != nil {
		return err
	}
	if ws.ExitStatus() != 0 {
		return unix.Errno(ws.ExitStatus())
	}
	return nil
}

func enter(file string, kind int) error {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	return unix.Setns(fd, kind)
}

// mountOperations change mounts, on a directory created for them.
var mountOperations = []Operation{
	{Name: "mount/tmpfs", try: func(t *Targets) error { return unix.Mount("none", ownMount(), "tmpfs", 0, "") }},
	{Name: "mount/bind", try: func(t *Targets) error { return unix.Mount("/", ownMount(), "", unix.MS_BIND, "") }},
	{Name: "mount/proc", try: func(t *Targets) error { return unix.Mount("none", ownMount(), "proc", 0, "") }},
	{Name: "mount/remount", try: func(t *Targets) error {
		return reached(unix.Mount("none", ownMount(), "", unix.MS_REMOUNT|unix.MS_BIND, ""), unix.EINVAL)
	}},
	{Name: "mount/unmount", try: func(t *Targets) error { return reached(unix.Unmount(ownMount(), 0), unix.EINVAL) }},
	{Name: "mount/pivot-root", try: func(t *Targets) error { return reached(unix.PivotRoot("/", "/"), unix.EINVAL, unix.EBUSY) }},
	{Name: "mount/chroot", try: func(t *Targets) error { return unix.Chroot(ownMount()) }},
	{Name: "mount/fsopen", try: func(t *Targets) error { _, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC); return err }},
	{Name: "mount/open-tree", try: func(t *Targets) error {
		_, err := unix.OpenTree(unix.AT_FDCWD, ownMount(), unix.OPEN_TREE_CLOEXEC|unix.OPEN_TREE_CLONE)
		return err
	}},
	{Name: "mount/move", try: func(t *Targets) error {
		return reached(unix.MoveMount(unix.AT_FDCWD, ownMount(), unix.AT_FDCWD, ownMount(), 0), unix.EINVAL, unix.ELOOP)
	}},
	{Name: "mount/attributes", try: func(t *Targets) error {
		return reached(unix.MountSetattr(unix.AT_FDCWD, ownMount(), 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NOSUID}), unix.EINVAL)
	}},
}

// ownMount creates a directory to mount on.
func ownMount() string {
	at := own("mnt")
	os.Mkdir(at, 0o700) //nolint:errcheck // otherwise the mount fails
	return at
}

// machineOperations use devices.
var machineOperations = []Operation{
	{Name: "device/memory", try: opener(unix.O_RDONLY, fixed("/dev/mem"))},
	{Name: "device/kernel-log", try: opener(unix.O_RDONLY, fixed("/dev/kmsg"))},
	{Name: "device/kvm", try: opener(unix.O_RDWR, fixed("/dev/kvm"))},
	{Name: "device/tun", try: opener(unix.O_RDWR, fixed("/dev/net/tun"))},
	{Name: "device/fuse", try: opener(unix.O_RDWR, fixed("/dev/fuse"))},
	{Name: "device/disk", try: firstDisk},
	{Name: "device/terminal-multiplexer", try: opener(unix.O_RDWR, fixed("/dev/ptmx"))},
	{Name: "device/controlling-terminal", try: opener(unix.O_RDWR, fixed("/dev/tty"))},
	{Name: "device/console", try: opener(unix.O_WRONLY, fixed("/dev/console"))},
	{Name: "device/ioctl", try: deviceIoctl},
	{Name: "device/type-into-terminal", try: typeInto},
	{Name: "device/entropy", try: opener(unix.O_WRONLY, fixed("/dev/urandom"))},
}

func firstDisk(*Targets) error {
	for _, pattern := range []string{"/dev/vd?", "/dev/sd?", "/dev/nvme?n1"} {
		if disks, err := filepath.Glob(pattern); err == nil && len(disks) > 0 {
			return open(disks[0], unix.O_RDONLY)
		}
	}
	return open("/dev/vda", unix.O_RDONLY)
}

// deviceIoctl sends an ioctl to a granted device. Only the driver of the device implements it.
func deviceIoctl(*Targets) error {
	fd, err := unix.Open("/dev/urandom", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	const entropyCount = 0x80045200
	_, err = unix.IoctlGetInt(fd, entropyCount)
	return err
}

// typeInto injects input into its own terminal. Without one it uses standard input, where the
// kernel returns ENOTTY.
func typeInto(*Targets) error {
	c := byte('x')
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = 0
	}
	return reached(call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, addr(&c)), unix.ENOTTY, unix.EIO)
}
