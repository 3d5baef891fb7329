// Package seccomp makes the filter of system calls of sandboxed tasks. It is made
// by the agent, once, and handed to the sandbox stage as part of the policy: the
// tables it is made from would cost every start half a millisecond. It loads
// nothing itself and starts no goroutine.
package seccomp

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	lib "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Available says why this kernel could not hold a task to a filter; nil if it can.
func Available() error {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if e != 0 {
		return fmt.Errorf("seccomp filters are not available in this kernel: %w", e)
	}
	return nil
}

// Default returns the filter of this machine's architecture, as the kernel reads
// it: an array of struct sock_filter.
func Default() ([]byte, error) {
	prog, err := assembled()
	return slices.Clone(prog), err
}

var assembled = sync.OnceValues(func() ([]byte, error) {
	raw, err := filter()
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 8*len(raw))
	for _, i := range raw {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out, nil
})

// denied are system calls no task needs and many an exploit begins with. Where
// an architecture lacks one there is nothing to deny.
var denied = []string{
	// file systems
	"mount", "umount2", "pivot_root", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "swapon", "swapoff", "quotactl", "quotactl_fd", "open_by_handle_at", "fanotify_init",
	"chroot", "nfsservctl", "lookup_dcookie", "uselib",
	// kernel code and memory
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "iopl", "ioperm",
	"syslog", "reboot", "acct", "vm86", "vm86old", "modify_ldt", "_sysctl",
	// keys live in a keyring per uid, which may be shared
	"keyctl", "add_key", "request_key",
	// other processes
	"process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "setns", "move_pages", "migrate_pages",
	// the host
	"sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "vhangup",
}

// Flags of clone and unshare that make namespaces. A new user namespace would hand
// the task every capability inside it, and with them most of the kernel.
const (
	cloneNamespaces   = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	unshareNamespaces = cloneNamespaces | unix.CLONE_NEWTIME
)

// families are the socket families a task may use.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// filter is the profile: our own part, which looks at half arguments and other
// errors than EPERM, then the one that the library assembles.
func filter() ([]bpf.RawInstruction, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	group := lib.SyscallGroup{Action: lib.ActionErrno}
	for _, name := range denied {
		if _, ok := info.SyscallNames[name]; ok {
			group.Names = append(group.Names, name)
		}
	}
	group.NamesWithCondtions = []lib.NameWithConditions{
		bits("clone", cloneNamespaces), bits("unshare", unshareNamespaces),
		// A task may trace its children (PTRACE_TRACEME), not seize what runs.
		equals("ptrace", unix.PTRACE_ATTACH), equals("ptrace", unix.PTRACE_SEIZE),
	}
	policy := lib.Policy{DefaultAction: lib.ActionAllow, Syscalls: []lib.SyscallGroup{group}}
	list, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	raw, err := bpf.Assemble(append(prologue(info), list...))
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	return raw, nil
}

func bits(name string, mask uint64) lib.NameWithConditions {
	return lib.NameWithConditions{Name: name, Conditions: lib.ArgumentConditions{{Argument: 0, Operation: lib.BitsSet, Value: mask}}}
}

func equals(name string, value uint64) lib.NameWithConditions {
	return lib.NameWithConditions{Name: name, Conditions: lib.ArgumentConditions{{Argument: 0, Operation: lib.Equal, Value: value}}}
}

// Offsets in struct seccomp_data (little-endian machines).
const (
	offNr   = 0
	offArch = 4
	offArg0 = 16
	offArg1 = 24
	offArg2 = 32
)

// prologue refuses system calls of a foreign architecture (their numbers differ,
// so the list would not hold), clone3 (its flags are behind a pointer; ENOSYS makes
// libraries use clone), sockets of odd families and multipath TCP (Landlock's
// port rules do not see it), and typing into a terminal. It compares the low
// halves of arguments, which is all the kernel reads of an int.
func prologue(info *arch.Info) []bpf.Instruction {
	errno := func(e unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
	}
	socket := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArg2, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_MPTCP, SkipTrue: 1},
		errno(unix.EPROTONOSUPPORT),
		bpf.LoadAbsolute{Off: offArg0, Size: 4},
	}
	for i, f := range families {
		socket = append(socket, bpf.JumpIf{Cond: bpf.JumpEqual, Val: f, SkipTrue: uint8(len(families) - i)})
	}
	socket = append(socket, errno(unix.EAFNOSUPPORT))
	ioctl := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArg1, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.TIOCLINUX, SkipTrue: 1},
		errno(unix.EPERM),
	}
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		errno(unix.ENOSYS),
	}
	when := func(nr uint32, then []bpf.Instruction) {
		out = append(out, bpf.LoadAbsolute{Off: offNr, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(then))})
		out = append(out, then...)
	}
	when(unix.SYS_CLONE3, []bpf.Instruction{errno(unix.ENOSYS)})
	when(unix.SYS_SOCKET, socket)
	when(unix.SYS_IOCTL, ioctl)
	return out
}
