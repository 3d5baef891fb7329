package seccomp

import (
	"slices"
	"sync"

	lib "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// StandardName is the name of the built-in profile.
const StandardName = "default"

// denied are system calls that no task needs and that many exploits use. Calls that an architecture
// lacks are ignored.
var denied = []string{
	// file systems
	"mount", "umount2", "pivot_root", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "statmount", "listmount", "swapon", "swapoff", "quotactl", "quotactl_fd", "open_by_handle_at", "fanotify_init",
	"chroot", "nfsservctl", "lookup_dcookie", "uselib", "sysfs", "ustat",
	// kernel code and memory
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "query_module",
	"get_kernel_syms", "iopl", "ioperm", "syslog", "reboot", "acct", "vm86", "vm86old", "modify_ldt", "_sysctl",
	// keys are kept per uid, which tasks may share
	"keyctl", "add_key", "request_key",
	// other processes, other namespaces
	"process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp", "setns", "listns",
	"move_pages", "migrate_pages", "lsm_set_self_attr",
	// the host
	"sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "vhangup",
}

// Flags of clone and unshare that create namespaces. A new user namespace would give the task every
// capability in it, and so access to most of the kernel.
const (
	cloneNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET
	unshareNamespaces = cloneNamespaces | unix.CLONE_NEWTIME
)

// Standard returns the built-in profile.
func Standard() (*Profile, error) { return standard() }

var standard = sync.OnceValues(func() (*Profile, error) {
	eperm := lib.ActionErrno | lib.Action(unix.EPERM)
	bits := func(name string, mask uint64) rule {
		return rule{names: []string{name}, action: eperm, when: []lib.Condition{{Operation: lib.BitsSet, Value: mask}}}
	}
	equals := func(name string, value uint64) rule {
		return rule{names: []string{name}, action: eperm, when: []lib.Condition{{Operation: lib.Equal, Value: value}}}
	}
	// Devices are made by mknod. A block device has the bit of a character device, and no other type of file that can be
	// made has it.
	nodes := func(name string, argument uint32) rule {
		return rule{names: []string{name}, action: eperm,
			when: []lib.Condition{{Argument: argument, Operation: lib.BitsSet, Value: unix.S_IFCHR}}}
	}
	p := &Profile{Name: StandardName, otherwise: lib.ActionAllow, rules: []rule{
		{names: denied, action: eperm},
		bits("clone", cloneNamespaces), bits("unshare", unshareNamespaces),
		// A task may trace its children (PTRACE_TRACEME), not running processes.
		equals("ptrace", unix.PTRACE_ATTACH), equals("ptrace", unix.PTRACE_SEIZE),
		// They would work on the node, where the file system of the task is not nodev.
		nodes("mknod", 1), nodes("mknodat", 2),
	}}
	p.head = append(p.head, unknown()...)
	p.head = append(p.head, sockets()...)
	p.head = append(p.head, devices()...)
	// The personality can be read but not changed: without address space randomisation, or if
	// readable implies executable, exploits are easier.
	p.head = append(p.head, onCall(unix.SYS_PERSONALITY, low(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 1<<32 - 1, SkipTrue: 1}, errno(unix.EPERM))...)
	return p, nil
})

// unknown refuses system calls that were not reviewed for this profile.
func unknown() []bpf.Instruction {
	return []bpf.Instruction{bpf.LoadAbsolute{Off: offNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: lastKnown, SkipTrue: 1}, errno(unix.ENOSYS)}
}

// sockType masks the type in socket's second argument, which also has flags.
const sockType = 0xf

// sockets allows common sockets: unix, TCP, UDP and ping over IPv4 and IPv6, and the routing
// netlink that libraries use to list addresses. Multipath TCP, SCTP and others would bypass
// Landlock's port rules. Raw and packet sockets can forge packets. The other families are rarely
// used and often vulnerable.
func sockets() []bpf.Instruction {
	fine := bpf.RetConstant{Val: uint32(handOn)}
	netlink := slices.Concat(load(low(2)), onValue(unix.NETLINK_ROUTE, fine), load(errno(unix.EPROTONOSUPPORT)))
	stream := slices.Concat(load(low(2)), onValue(unix.IPPROTO_IP, fine), onValue(unix.IPPROTO_TCP, fine),
		load(errno(unix.EPROTONOSUPPORT)))
	datagram := slices.Concat(load(low(2)), onValue(unix.IPPROTO_IP, fine), onValue(unix.IPPROTO_UDP, fine),
		onValue(unix.IPPROTO_ICMP, fine), onValue(unix.IPPROTO_ICMPV6, fine), load(errno(unix.EPROTONOSUPPORT)))
	internet := slices.Concat(load(low(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: sockType}),
		onValue(unix.SOCK_STREAM, stream...), onValue(unix.SOCK_DGRAM, datagram...), load(errno(unix.EPERM)))
	socket := slices.Concat(load(low(0)), onValue(unix.AF_UNIX, fine), onValue(unix.AF_NETLINK, netlink...),
		onValue(unix.AF_INET, internet...), onValue(unix.AF_INET6, internet...), load(errno(unix.EAFNOSUPPORT)))
	pair := slices.Concat(load(low(0)), onValue(unix.AF_UNIX, fine), load(errno(unix.EAFNOSUPPORT)))
	return goOn(append(onCall(unix.SYS_SOCKET, socket...), onCall(unix.SYS_SOCKETPAIR, pair...)...))
}

// devices refuses injecting input into a terminal, controlling a console, and loading a line
// discipline, on a terminal that was opened before.
func devices() []bpf.Instruction {
	return onCall(unix.SYS_IOCTL, low(1),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCLINUX, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.TIOCSETD, SkipTrue: 1},
		errno(unix.EPERM))
}
