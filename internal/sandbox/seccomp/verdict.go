package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// goArch returns the name of an architecture in Go and in the OCI's filters.
func goArch(info *arch.Info) string {
	switch info.ID {
	case arch.X86_64.ID:
		return "amd64"
	case arch.AARCH64.ID:
		return "arm64"
	}
	return info.Name
}

// call is one system call.
type call struct {
	nr   uint32
	args [6]uint64
}

// judge evaluates filters without making the calls.
type judge struct {
	vm   *bpf.VM
	arch uint32
}

func newJudge(prog []byte) (*judge, error) {
	info, err := native()
	if err != nil {
		return nil, err
	}
	raw := make([]bpf.RawInstruction, len(prog)/8)
	if _, err := binary.Decode(prog, binary.NativeEndian, raw); err != nil {
		return nil, err
	}
	list, ok := bpf.Disassemble(raw)
	if !ok {
		return nil, errors.New("the filter does not disassemble")
	}
	vm, err := bpf.NewVM(list)
	if err != nil {
		return nil, err
	}
	return &judge{vm: vm, arch: uint32(info.ID)}, nil
}

// verdict returns the filter's result for a call.
func (j *judge) verdict(c call) (uint32, error) {
	// The machine of x/net reads big-endian, the kernel its native order. Each word is therefore
	// written big-endian at the kernel's offset.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offNr:], c.nr)
	binary.BigEndian.PutUint32(data[offArch:], j.arch)
	for i, a := range c.args {
		binary.BigEndian.PutUint32(data[offArgs+argSize*i:], uint32(a))
		binary.BigEndian.PutUint32(data[offArgs+argSize*i+4:], uint32(a>>32))
	}
	v, err := j.vm.Run(data)
	return uint32(v), err
}

func permits(verdict uint32) bool {
	return verdict == unix.SECCOMP_RET_ALLOW || verdict == unix.SECCOMP_RET_LOG
}

// beforeExec are the calls of the sandbox stage between loading the filter and the execve.
var beforeExec = []string{"execve", "rt_sigaction", "rt_sigprocmask", "write", "exit_group"}

// startable returns an error if no task could start with the profile.
func (p *Profile) startable() error {
	j, err := p.judge()
	if err != nil {
		return err
	}
	info, err := native()
	if err != nil {
		return err
	}
	for _, name := range beforeExec {
		nr, _ := number(info, name)
		v, err := j.verdict(call{nr: nr})
		if err != nil {
			return err
		}
		if !permits(v) {
			return fmt.Errorf("%s is refused: no task could start (a start needs %s)", name, strings.Join(beforeExec, ", "))
		}
	}
	return nil
}

func (p *Profile) judge() (*judge, error) {
	prog, err := p.Filter(Gaps{})
	if err != nil {
		return nil, err
	}
	return newJudge(prog)
}

// Weaker lists checked calls that the profile permits and the standard profile refuses. Checked is
// every call of its list, with any arguments. For calls that it refuses by their arguments, one set
// of arguments for each reason is checked.
func (p *Profile) Weaker() ([]string, error) {
	if p.Name == StandardName && p.head != nil {
		return nil, nil
	}
	var out []string
	for _, name := range denied {
		if p.mayPermit(name) {
			out = append(out, name)
		}
	}
	j, err := p.judge()
	if err != nil {
		return nil, err
	}
	for _, r := range refused {
		v, err := j.verdict(r.call)
		if err != nil {
			return nil, err
		}
		if permits(v) {
			out = append(out, r.name)
		}
	}
	return out, nil
}

// mayPermit reports whether any arguments make the filter permit the call.
func (p *Profile) mayPermit(name string) bool {
	info, err := native()
	if err != nil {
		return true
	}
	if _, ok := number(info, name); !ok {
		return false
	}
	for _, r := range p.rules {
		if !slices.Contains(r.names, name) {
			continue
		}
		if permits(uint32(r.action)) {
			return true
		}
		if len(r.when) == 0 {
			return false
		}
	}
	return permits(uint32(p.otherwise))
}

// refused are calls that the standard profile refuses because of their arguments.
var refused = refusedCalls()

type namedCall struct {
	name string
	call
}

func refusedCalls() []namedCall {
	of := func(name string, nr uint32, args ...uint64) namedCall {
		c := namedCall{name: name, call: call{nr: nr}}
		copy(c.args[:], args)
		return c
	}
	out := []namedCall{
		of("personality", unix.SYS_PERSONALITY, 0x0040000), of("personality of reading", unix.SYS_PERSONALITY, 0x0400000),
		of("ptrace attach", unix.SYS_PTRACE, unix.PTRACE_ATTACH), of("ptrace seize", unix.SYS_PTRACE, unix.PTRACE_SEIZE),
		of("typing into a terminal", unix.SYS_IOCTL, 0, unix.TIOCSTI), of("steering a console", unix.SYS_IOCTL, 0, unix.TIOCLINUX),
		of("line disciplines", unix.SYS_IOCTL, 0, unix.TIOCSETD),
		of("raw sockets", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP),
		of("raw sockets of IPv6", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW),
		of("packet sockets", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW),
		of("old packet sockets", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_PACKET),
		of("MPTCP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP),
		of("MPTCP of IPv6", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP),
		of("SCTP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
		of("netfilter netlink", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
		of("audit netlink", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
		of("vsock", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM),
		of("vsock by a high half", unix.SYS_SOCKET, 1<<32|unix.AF_VSOCK, unix.SOCK_STREAM),
		of("kernel crypto sockets", unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET),
		of("TIPC pairs", unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM),
		of("clone3", unix.SYS_CLONE3), of("system calls newer than the list", lastKnown+1),
	}
	for _, flag := range []uint64{unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER,
		unix.CLONE_NEWPID, unix.CLONE_NEWNET} {
		out = append(out, of(fmt.Sprintf("clone with namespaces (%#x)", flag), unix.SYS_CLONE, flag|uint64(unix.SIGCHLD)),
			of(fmt.Sprintf("unshare of namespaces (%#x)", flag), unix.SYS_UNSHARE, flag))
	}
	return append(out, of("unshare of time", unix.SYS_UNSHARE, unix.CLONE_NEWTIME))
}
