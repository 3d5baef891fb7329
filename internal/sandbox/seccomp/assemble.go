package seccomp

import (
	"fmt"
	"slices"

	lib "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (little-endian machines).
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
	argSize = 8
)

// maxFilter is the kernel's maximum number of instructions.
const maxFilter = 4096

// assemble returns the filter: the parts in the order of the package doc.
func (p *Profile) assemble(g Gaps) ([]bpf.RawInstruction, error) {
	info, err := native()
	if err != nil {
		return nil, err
	}
	out := append(guard(info), g.close(info)...)
	if !p.names("clone3") {
		out = append(out, onCall(unix.SYS_CLONE3, errno(unix.ENOSYS))...)
	}
	out = append(out, p.head...)
	out = append(out, p.wholeInts(info)...)
	for _, r := range p.rules {
		block, err := r.block(info)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.where, err)
		}
		out = append(out, block...)
	}
	out = append(out, bpf.RetConstant{Val: uint32(p.otherwise)})
	if n := len(out); n > maxFilter {
		return nil, fmt.Errorf("filter of %d instructions: the kernel takes at most %d", n, maxFilter)
	}
	return bpf.Assemble(out)
}

// names reports whether a rule names the system call.
func (p *Profile) names(call string) bool {
	return slices.ContainsFunc(p.rules, func(r rule) bool { return slices.Contains(r.names, call) })
}

func errno(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
}

// onCall runs then for one system call, and continues after it for all others.
func onCall(nr uint32, then ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.LoadAbsolute{Off: offNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(then))}}, then...)
}

// onValue runs then for one value of the accumulator, and continues after it for all others. then
// must end in a verdict, since it may change the accumulator.
func onValue(v uint32, then ...bpf.Instruction) []bpf.Instruction {
	return append(load(bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: uint8(len(then))}), then...)
}

func load(in ...bpf.Instruction) []bpf.Instruction { return in }

// low and high load half an argument. The kernel uses only the low half of an int, so an int is
// compared by it.
func low(arg uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + argSize*arg, Size: 4} }
func high(arg uint32) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offArgs + argSize*arg + 4, Size: 4}
}

// guard refuses calls of other architectures: their numbers mean other calls, so a list of names
// would not apply.
func guard(info *arch.Info) []bpf.Instruction {
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		errno(unix.ENOSYS),
	}
	if info.ID == arch.X86_64.ID { // x32 has the same architecture and this bit
		out = append(out, bpf.LoadAbsolute{Off: offNr, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(arch.X32.SeccompMask), SkipTrue: 1},
			errno(unix.ENOSYS))
	}
	return out
}

// ipcCalls are those of System V and POSIX message queues.
var ipcCalls = []string{"shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl",
	"msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"}

// close closes the gaps.
func (g Gaps) close(info *arch.Info) []bpf.Instruction {
	var out []bpf.Instruction
	if g.IPC {
		for _, name := range ipcCalls {
			if nr, ok := number(info, name); ok {
				out = append(out, onCall(nr, errno(unix.EPERM))...)
			}
		}
	}
	if g.Processes { // a process may change itself by number 0
		out = append(out, onCall(unix.SYS_PRLIMIT64, low(0),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, errno(unix.EPERM))...)
	}
	if g.Ports {
		out = append(out, sockets()...) // MPTCP, SMC and others run over TCP
		out = append(out, fastOpen()...)
		out = append(out, onCall(unix.SYS_IO_URING_SETUP, errno(unix.EPERM))...) // no filter sees its operations
	}
	return out
}

// fastOpen refuses data on unconnected sockets with the error of a kernel without TCP Fast Open.
// Such a send connects, and Landlock does not check it (found on Linux 6.18).
func fastOpen() []bpf.Instruction {
	flagged := func(nr, arg uint32) []bpf.Instruction {
		return onCall(nr, low(arg), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.MSG_FASTOPEN, SkipTrue: 1}, errno(unix.EOPNOTSUPP))
	}
	return slices.Concat(flagged(unix.SYS_SENDTO, 3), flagged(unix.SYS_SENDMSG, 2), flagged(unix.SYS_SENDMMSG, 3))
}

// ints are the arguments that the kernel uses as int, for calls that profiles commonly check. A
// comparison has 64 bits. Without wholeInts, 1<<32|AF_VSOCK would differ from AF_VSOCK, but the
// kernel would use AF_VSOCK.
var ints = map[string][]uint32{
	"socket": {0, 1, 2}, "socketpair": {0, 1, 2}, "setsockopt": {0, 1, 2}, "getsockopt": {0, 1, 2},
	"personality": {0}, "ioctl": {0, 1}, "fcntl": {0, 1}, "prctl": {0}, "keyctl": {0}, "bpf": {0}, "madvise": {2},
	"kill": {0, 1}, "tkill": {0, 1}, "tgkill": {0, 1, 2}, "prlimit64": {0, 1}, "setpriority": {0, 1, 2},
	"open": {1}, "openat": {0, 2}, "memfd_create": {1}, "userfaultfd": {0}, "setns": {0, 1},
}

// wholeInts refuses an int that is not sign-extended to 64 bits, if a rule compares it.
func (p *Profile) wholeInts(info *arch.Info) []bpf.Instruction {
	var out []bpf.Instruction
	seen := map[string]bool{}
	for _, r := range p.rules {
		for _, name := range r.names {
			nr, ok := number(info, name)
			for _, c := range r.when {
				key := fmt.Sprint(name, c.Argument)
				if !ok || seen[key] || !slices.Contains(ints[name], c.Argument) {
					continue
				}
				seen[key] = true
				out = append(out, onCall(nr, high(c.Argument),
					bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 4},
					bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 1<<32 - 1, SkipTrue: 2},
					low(c.Argument),
					bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: 1 << 31, SkipTrue: 1},
					errno(unix.EINVAL))...)
			}
		}
	}
	return out
}

// handOn marks the places in the library's output that continue with the next rule. Profiles cannot
// use this action themselves: it needs a tracer, and tasks do not have one.
const handOn = lib.ActionTrace

// block returns the instructions of the rule, which end in its action or continue after them. The
// library assembles them, including jumps of more than 255 and comparisons of 64 bits. Its policies
// of several groups return the default action after the first group. Each rule is therefore a
// policy of its own, whose default action becomes a jump to the next rule.
func (r rule) block(info *arch.Info) ([]bpf.Instruction, error) {
	group := lib.SyscallGroup{Action: r.action}
	var out []bpf.Instruction
	for _, name := range r.names {
		_, recent := newer[name]
		nr, ok := number(info, name)
		switch {
		case !ok: // only on another architecture
		case recent && len(r.when) > 0:
			return nil, fmt.Errorf("arguments of %s cannot be compared: the library does not support this call", name)
		case recent:
			out = append(out, onCall(nr, bpf.RetConstant{Val: uint32(r.action)})...)
		case len(r.when) == 0:
			group.Names = append(group.Names, name)
		default:
			group.NamesWithCondtions = append(group.NamesWithCondtions, lib.NameWithConditions{Name: name, Conditions: r.when})
		}
	}
	if len(group.Names)+len(group.NamesWithCondtions) == 0 {
		return out, nil
	}
	policy := lib.Policy{DefaultAction: handOn, Syscalls: []lib.SyscallGroup{group}}
	list, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	return append(out, goOn(list)...), nil
}

// goOn replaces each handOn of the list by a jump past its end.
func goOn(list []bpf.Instruction) []bpf.Instruction {
	for i, in := range list {
		if in == (bpf.RetConstant{Val: uint32(handOn)}) {
			list[i] = bpf.Jump{Skip: uint32(len(list) - i - 1)}
		}
	}
	return list
}
