package seccomp

import (
	"testing"

	lib "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

const allow = unix.SECCOMP_RET_ALLOW

func no(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// judgeOf returns a judge for a profile's filter.
func judgeOf(t *testing.T, p *Profile, s Gaps) *judge {
	t.Helper()
	prog, err := p.Filter(s)
	if err != nil {
		t.Fatal(err)
	}
	j, err := newJudge(prog)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// of returns the verdict on a call with these arguments.
func (j *judge) of(t *testing.T, nr uint32, args ...uint64) uint32 {
	t.Helper()
	c := call{nr: nr}
	copy(c.args[:], args)
	v, err := j.verdict(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func standardProfile(t *testing.T) (*Profile, *arch.Info) {
	t.Helper()
	info, err := native()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Standard()
	if err != nil {
		t.Fatal(err)
	}
	return p, info
}

func TestStandard(t *testing.T) {
	p, info := standardProfile(t)
	j := judgeOf(t, p, Gaps{})
	own := j.arch
	tests := []struct {
		name string
		arch uint32
		nr   uint32
		args []uint64
		want uint32
	}{
		{"write", own, unix.SYS_WRITE, nil, allow},
		{"execve", own, unix.SYS_EXECVE, nil, allow},
		{"mount", own, unix.SYS_MOUNT, nil, no(unix.EPERM)},
		{"bpf", own, unix.SYS_BPF, nil, no(unix.EPERM)},
		{"foreign architecture", 0x40000003, 21, nil, no(unix.ENOSYS)}, // i386, its mount
		{"unknown architecture", 0, unix.SYS_WRITE, nil, no(unix.ENOSYS)},
		{"fork", own, unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow},
		{"thread", own, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"clone user namespace", own, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, no(unix.EPERM)},
		{"clone high bits", own, unix.SYS_CLONE, []uint64{1<<63 | unix.CLONE_NEWNS}, no(unix.EPERM)},
		{"clone3", own, unix.SYS_CLONE3, nil, no(unix.ENOSYS)},
		{"unshare files", own, unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}, allow},
		{"unshare time", own, unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}, no(unix.EPERM)},
		{"tcp", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, allow},
		{"unix", own, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"mptcp", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, no(unix.EPROTONOSUPPORT)},
		{"mptcp high half", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 1<<40 | unix.IPPROTO_MPTCP}, no(unix.EPROTONOSUPPORT)},
		{"crypto", own, unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, no(unix.EAFNOSUPPORT)},
		{"vsock high half", own, unix.SYS_SOCKET, []uint64{1<<33 | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, no(unix.EAFNOSUPPORT)},
		{"type into terminal", own, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, no(unix.EPERM)},
		{"window size", own, unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, allow},
		{"trace me", own, unix.SYS_PTRACE, []uint64{unix.PTRACE_TRACEME}, allow},
		{"seize", own, unix.SYS_PTRACE, []uint64{unix.PTRACE_SEIZE}, no(unix.EPERM)},
		{"attach", own, unix.SYS_PTRACE, []uint64{unix.PTRACE_ATTACH}, no(unix.EPERM)},
		{"quiet personality", own, unix.SYS_PERSONALITY, []uint64{1<<32 - 1}, allow},
		{"personality", own, unix.SYS_PERSONALITY, []uint64{0x0040000}, no(unix.EPERM)},
		{"no personality", own, unix.SYS_PERSONALITY, []uint64{0}, no(unix.EPERM)},
		{"udp", own, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.IPPROTO_UDP}, allow},
		{"tcp by name", own, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, allow},
		{"ping", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, allow},
		{"raw", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP}, no(unix.EPERM)},
		{"raw type by a high half", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, 1<<32 | unix.SOCK_RAW, unix.IPPROTO_ICMP}, no(unix.EPERM)},
		{"old packet", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_PACKET, 0}, no(unix.EPERM)},
		{"packet", own, unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0x300}, no(unix.EAFNOSUPPORT)},
		{"sctp", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, no(unix.EPROTONOSUPPORT)},
		{"sctp packets", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, no(unix.EPERM)},
		{"l2tp", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, 115}, no(unix.EPROTONOSUPPORT)},
		{"smc", own, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 256}, no(unix.EPROTONOSUPPORT)},
		{"routes", own, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, allow},
		{"audit", own, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, no(unix.EPROTONOSUPPORT)},
		{"netfilter", own, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_NETFILTER}, no(unix.EPROTONOSUPPORT)},
		{"unix datagrams", own, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, allow},
		{"pair", own, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, allow},
		{"odd pair", own, unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM, 0}, no(unix.EAFNOSUPPORT)},
		{"line discipline", own, unix.SYS_IOCTL, []uint64{0, unix.TIOCSETD}, no(unix.EPERM)},
		{"steer a console", own, unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCLINUX}, no(unix.EPERM)},
		{"mount by a new call", own, unix.SYS_OPEN_TREE_ATTR, nil, no(unix.EPERM)},
		{"list namespaces", own, unix.SYS_LISTNS, nil, no(unix.EPERM)},
		{"newest reviewed", own, lastKnown, nil, allow},
		{"not reviewed", own, lastKnown + 1, nil, no(unix.ENOSYS)},
		{"no number", own, 1<<32 - 1, nil, no(unix.ENOSYS)},
		{"own shared memory", own, unix.SYS_SHMGET, nil, allow},
		{"limits of another", own, unix.SYS_PRLIMIT64, []uint64{77}, allow}, // its own PID namespace excludes others
	}
	if info.ID == arch.X86_64.ID {
		tests = append(tests, tests[0])
		tests[len(tests)-1].name, tests[len(tests)-1].nr = "x32", 0x40000000+unix.SYS_WRITE
		tests[len(tests)-1].want = no(unix.ENOSYS)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			foreign := *j
			foreign.arch = tt.arch
			if got := foreign.of(t, tt.nr, tt.args...); got != tt.want {
				t.Errorf("verdict = %#x, want %#x", got, tt.want)
			}
		})
	}
	for _, name := range denied {
		nr, ok := number(info, name)
		if !ok {
			if !elsewhere(name) {
				t.Errorf("%s is denied but is not a system call", name)
			}
			continue
		}
		if got := j.of(t, nr); got != no(unix.EPERM) {
			t.Errorf("%s: verdict = %#x, want EPERM", name, got)
		}
	}
}

// TestGaps checks calls that missing namespaces would allow.
func TestGaps(t *testing.T) {
	p, info := standardProfile(t)
	j := judgeOf(t, p, Gaps{IPC: true, Processes: true})
	for _, name := range ipcCalls {
		nr, ok := number(info, name)
		if !ok {
			t.Errorf("%s has no number", name)
		}
		if got := j.of(t, nr); got != no(unix.EPERM) {
			t.Errorf("%s: verdict = %#x, want EPERM", name, got)
		}
	}
	if got := j.of(t, unix.SYS_PRLIMIT64, 1<<32); got != allow {
		t.Errorf("its own limits: verdict = %#x", got)
	}
	if got := j.of(t, unix.SYS_PRLIMIT64, 77); got != no(unix.EPERM) {
		t.Errorf("another's limits: verdict = %#x, want EPERM", got)
	}
}

// TestRefused checks the probes of Weaker against the standard profile.
func TestRefused(t *testing.T) {
	p, _ := standardProfile(t)
	j := judgeOf(t, p, Gaps{})
	for _, r := range refused {
		if got := j.of(t, r.nr, r.args[:]...); permits(got) {
			t.Errorf("the standard profile permits %s", r.name)
		}
	}
}

func TestFilterIsMadeOnce(t *testing.T) {
	p, _ := standardProfile(t)
	a, err := p.Filter(Gaps{})
	b, err2 := p.Filter(Gaps{})
	if err != nil || err2 != nil || len(a) == 0 || &a[0] != &b[0] {
		t.Errorf("Filter() made two programs: %v, %v", err, err2)
	}
}

// TestPorts checks that calls that bypass Landlock's port rules are refused, also in a profile that
// allows everything.
func TestPorts(t *testing.T) {
	tests := []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}, allow},
		{"tcp by name", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
		{"udp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allow},
		{"unix", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"mptcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, no(unix.EPROTONOSUPPORT)},
		{"mptcp6 with flags", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, unix.IPPROTO_MPTCP},
			no(unix.EPROTONOSUPPORT)},
		{"smc", unix.SYS_SOCKET, []uint64{1<<32 | unix.AF_INET, unix.SOCK_STREAM, 256}, no(unix.EPROTONOSUPPORT)},
		{"smc by its family", unix.SYS_SOCKET, []uint64{43, unix.SOCK_STREAM, 0}, no(unix.EAFNOSUPPORT)},
		{"send", unix.SYS_SENDTO, []uint64{3, 0, 0, unix.MSG_NOSIGNAL}, allow},
		{"fast open", unix.SYS_SENDTO, []uint64{3, 0, 0, unix.MSG_FASTOPEN | unix.MSG_NOSIGNAL}, no(unix.EOPNOTSUPP)},
		{"fast open of a message", unix.SYS_SENDMSG, []uint64{3, 0, 1<<32 | unix.MSG_FASTOPEN}, no(unix.EOPNOTSUPP)},
		{"fast open of messages", unix.SYS_SENDMMSG, []uint64{3, 0, 0, unix.MSG_FASTOPEN}, no(unix.EOPNOTSUPP)},
		{"messages", unix.SYS_SENDMMSG, []uint64{3, 0, unix.MSG_FASTOPEN, 0}, allow},
		{"io_uring", unix.SYS_IO_URING_SETUP, nil, no(unix.EPERM)},
	}
	open := &Profile{Name: "open", otherwise: lib.ActionAllow}
	p, _ := standardProfile(t)
	for _, profile := range []*Profile{p, open} {
		j := judgeOf(t, profile, Gaps{Ports: true})
		for _, tt := range tests {
			if got := j.of(t, tt.nr, tt.args...); got != tt.want {
				t.Errorf("%s: %s: verdict = %#x, want %#x", profile.Name, tt.name, got, tt.want)
			}
		}
	}
	if got := judgeOf(t, open, Gaps{}).of(t, unix.SYS_SENDTO, 3, 0, 0, unix.MSG_FASTOPEN); got != allow {
		t.Errorf("fast open without rules for ports: verdict = %#x, want it allowed", got)
	}
}
