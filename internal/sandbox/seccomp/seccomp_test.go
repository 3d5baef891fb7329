package seccomp

import (
	"encoding/binary"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// judge runs the filter on one system call.
func judge(t *testing.T, vm *bpf.VM, archID, nr uint32, args ...uint64) uint32 {
	t.Helper()
	// The machine of x/net reads big-endian, the kernel its own order: so each word
	// is written big-endian where the kernel has it.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[0:], nr)
	binary.BigEndian.PutUint32(data[4:], archID)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	v, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(v)
}

func TestFilter(t *testing.T) {
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	instructions := make([]bpf.RawInstruction, len(raw)/8)
	if _, err := binary.Decode(raw, binary.NativeEndian, instructions); err != nil {
		t.Fatal(err)
	}
	prog, ok := bpf.Disassemble(instructions)
	if !ok {
		t.Fatal("filter does not disassemble")
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	native := uint32(info.ID)
	const allow = unix.SECCOMP_RET_ALLOW
	errno := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	tests := []struct {
		name string
		arch uint32
		nr   uint32
		args []uint64
		want uint32
	}{
		{"write", native, unix.SYS_WRITE, nil, allow},
		{"execve", native, unix.SYS_EXECVE, nil, allow},
		{"mount", native, unix.SYS_MOUNT, nil, errno(unix.EPERM)},
		{"bpf", native, unix.SYS_BPF, nil, errno(unix.EPERM)},
		{"foreign architecture", 0x40000003, 21, nil, errno(unix.ENOSYS)}, // i386, its mount
		{"unknown architecture", 0, unix.SYS_WRITE, nil, errno(unix.ENOSYS)},
		{"fork", native, unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow},
		{"thread", native, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"clone user namespace", native, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, errno(unix.EPERM)},
		{"clone high bits", native, unix.SYS_CLONE, []uint64{1<<63 | unix.CLONE_NEWNS}, errno(unix.EPERM)},
		{"clone3", native, unix.SYS_CLONE3, nil, errno(unix.ENOSYS)},
		{"unshare files", native, unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}, allow},
		{"unshare time", native, unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}, errno(unix.EPERM)},
		{"tcp", native, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, allow},
		{"unix", native, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"mptcp", native, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, errno(unix.EPROTONOSUPPORT)},
		{"mptcp high half", native, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 1<<40 | unix.IPPROTO_MPTCP}, errno(unix.EPROTONOSUPPORT)},
		{"crypto", native, unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, errno(unix.EAFNOSUPPORT)},
		{"vsock high half", native, unix.SYS_SOCKET, []uint64{1<<33 | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, errno(unix.EAFNOSUPPORT)},
		{"type into terminal", native, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, errno(unix.EPERM)},
		{"window size", native, unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, allow},
		{"trace me", native, unix.SYS_PTRACE, []uint64{unix.PTRACE_TRACEME}, allow},
		{"seize", native, unix.SYS_PTRACE, []uint64{unix.PTRACE_SEIZE}, errno(unix.EPERM)},
		{"attach", native, unix.SYS_PTRACE, []uint64{unix.PTRACE_ATTACH}, errno(unix.EPERM)},
	}
	if info.ID == arch.X86_64.ID {
		tests = append(tests, tests[0])
		tests[len(tests)-1].name, tests[len(tests)-1].nr = "x32", 0x40000000+unix.SYS_WRITE
		tests[len(tests)-1].want = errno(unix.ENOSYS)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(t, vm, tt.arch, tt.nr, tt.args...); got != tt.want {
				t.Errorf("verdict = %#x, want %#x", got, tt.want)
			}
		})
	}
	for _, name := range denied {
		nr, ok := info.SyscallNames[name]
		if !ok {
			continue
		}
		if got := judge(t, vm, native, uint32(nr)); got != errno(unix.EPERM) {
			t.Errorf("%s: verdict = %#x, want EPERM", name, got)
		}
	}
}
