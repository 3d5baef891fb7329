// Package testkernel starts a program of a test as on an older or a restricted kernel. The kernel
// has a lower Landlock ABI, no Landlock, or no user namespaces. The program needs no change, so the
// production code is tested.
//
// It installs a seccomp filter for the program and its children. If the result depends on memory
// (struct landlock_ruleset_attr) or is not an error (the ABI), the filter asks a goroutine that Start
// leaves running. It ends with the last process under the filter.
package testkernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testthread"
)

// Kernel lists the missing features. The zero Kernel is the running one.
type Kernel struct {
	LandlockABI      int  // reported ABI, not above the real one; 0 is the real one
	NoLandlock       bool // the Landlock system calls do not exist
	NoUserNamespaces bool // creating one is not permitted

	Env []string // additional variables of Again, besides TMPDIR, HOME and PATH
}

// Start starts cmd under k. Wait for it as after cmd.Start.
func (k Kernel) Start(cmd *exec.Cmd) error {
	raw, err := bpf.Assemble(k.filter())
	if err != nil {
		return fmt.Errorf("assemble the filter of an older kernel: %w", err)
	}
	testthread.Run(func() { err = k.startHere(cmd, raw) }) // a filter belongs to a thread
	return err
}

func (k Kernel) startHere(cmd *exec.Cmd, raw []bpf.RawInstruction) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	prog := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		prog[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	listener, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return fmt.Errorf("load the filter of an older kernel: %w", e)
	}
	unix.CloseOnExec(int(listener))
	go k.answer(int(listener))
	return cmd.Start()
}

// Offsets in struct seccomp_data.
const (
	offNr   = 0
	offArg0 = 16
)

// filter asks for each Landlock call and refuses user namespaces.
func (k Kernel) filter() []bpf.Instruction {
	deny := func(e unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
	}
	var out []bpf.Instruction
	when := func(nr uint32, then ...bpf.Instruction) {
		out = append(out, bpf.LoadAbsolute{Off: offNr, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(then))})
		out = append(out, then...)
	}
	for _, nr := range []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF} {
		switch {
		case k.NoLandlock:
			when(nr, deny(unix.ENOSYS))
		case k.LandlockABI > 0:
			when(nr, bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF})
		}
	}
	if k.NoUserNamespaces {
		for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
			when(nr, bpf.LoadAbsolute{Off: offArg0, Size: 4},
				bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_NEWUSER, SkipFalse: 1}, deny(unix.EPERM))
		}
		when(unix.SYS_CLONE3, deny(unix.ENOSYS)) // a filter cannot read its flags
	}
	return append(out, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

// notification is struct seccomp_notif, verdict struct seccomp_notif_resp.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		nr         int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	verdict struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
)

// answer answers as the older kernel until no process is left.
func (k Kernel) answer(listener int) {
	defer unix.Close(listener)
	for {
		var n notification
		switch e := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); {
		case e == unix.EINTR, e == unix.ENOENT && asked(listener): // a signal interrupted the caller
			continue
		case e != 0:
			return
		}
		v := verdict{id: n.id}
		value, err := k.judge(&n)
		switch {
		case err != nil:
			v.errno = -int32(errnoOf(err))
		case value > 0:
			v.value = value
		default:
			v.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
		}
		ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&v)) // the caller may be dead
	}
}

// asked reports whether a process is still below the filter.
func asked(listener int) bool {
	fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, 0)
	return err == unix.EINTR || err == nil && fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) == 0
}

func ioctl(fd int, req uint, arg unsafe.Pointer) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(arg))
	return e
}

func errnoOf(err error) unix.Errno {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return unix.EFAULT
}

// judge returns the result of the call; 0 lets the real kernel decide.
func (k Kernel) judge(n *notification) (int64, error) {
	switch {
	case n.nr == unix.SYS_LANDLOCK_CREATE_RULESET && n.args[2] == unix.LANDLOCK_CREATE_RULESET_VERSION:
		return int64(k.LandlockABI), nil
	case n.nr == unix.SYS_LANDLOCK_CREATE_RULESET && n.args[2] != 0:
		return 0, unix.EINVAL
	case n.nr == unix.SYS_LANDLOCK_CREATE_RULESET:
		return 0, k.mapped(int(n.pid), n.args[0], n.args[1])
	case n.nr == unix.SYS_LANDLOCK_ADD_RULE && n.args[1] != unix.LANDLOCK_RULE_PATH_BENEATH && k.LandlockABI < 4:
		return 0, unix.EINVAL
	case n.nr == unix.SYS_LANDLOCK_RESTRICT_SELF && n.args[1] != 0 && k.LandlockABI < 7:
		return 0, unix.EINVAL
	}
	return 0, nil
}

// masks are the known rights of each ABI: files, TCP, scopes.
var masks = [][3]uint64{
	1: {0x1fff, 0, 0}, 2: {0x3fff, 0, 0}, 3: {0x7fff, 0, 0}, 4: {0x7fff, 3, 0}, 5: {0xffff, 3, 0}, 6: {0xffff, 3, 3},
}

// mapped refuses rights that the older kernel does not have.
func (k Kernel) mapped(pid int, addr, size uint64) error {
	if size > 64 {
		return unix.E2BIG
	}
	raw := make([]byte, 64)
	local := []unix.Iovec{{Base: &raw[0], Len: size}}
	if _, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: int(size)}}, 0); err != nil {
		return err
	}
	mask := masks[min(k.LandlockABI, len(masks)-1)]
	for i := range len(raw) / 8 {
		word, allowed := binary.NativeEndian.Uint64(raw[8*i:]), uint64(0)
		if i < len(mask) {
			allowed = mask[i]
		}
		if word&^allowed != 0 {
			return unix.EINVAL
		}
	}
	return nil
}
