// Package seccomp makes the filters of system calls of sandboxed tasks. They are made
// by the agent, once each, and handed to the sandbox stage as part of the policy: the
// tables they are made from would cost every start half a millisecond. It loads
// nothing itself and starts no goroutine.
//
// A filter is made of parts, each of which decides or hands on to the next:
//
//	guard      calls of a foreign architecture and of x32: ENOSYS. In every filter.
//	gaps       what other layers of the sandbox leave open. In every filter.
//	clone3     ENOSYS, so that libraries use clone, whose flags a filter can see
//	sockets …  of the standard profile: what a list of names cannot say (standard.go)
//	rules      of the profile, in their order (assemble.go)
//	default    the profile's action for all that no rule matched
//
// The library go-seccomp-bpf assembles the rules. The other parts are our own
// instructions: the library has one action per policy, compares arguments as 64 bits
// only, and does not know the newest system calls.
//
// The standard profile refuses what no task needs and many an exploit begins with;
// system calls newer than its list do not exist for a task. Profiles of the operator
// are files in the JSON form of the OCI (oci.go).
package seccomp

import (
	"encoding/binary"
	"fmt"
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

// Gaps are what other layers of a task's sandbox leave open. A filter closes them as
// well as it can, whatever its profile.
type Gaps struct {
	IPC       bool // no IPC namespace: System V objects and POSIX message queues are shared
	Processes bool // no PID namespace: limits of others of its user can be changed by number
	Ports     bool // TCP ports are restricted, which Landlock does for connect and bind alone
}

// Profile is what a task may ask of the kernel. It does not change once made.
type Profile struct {
	Name string

	head      []bpf.Instruction // of the standard profile
	rules     []rule
	otherwise lib.Action

	mu      sync.Mutex
	filters map[Gaps][]byte
}

// rule is one action for some system calls.
type rule struct {
	where  string // in the profile's file, for errors
	names  []string
	when   []lib.Condition // all must hold; none: always
	action lib.Action      // with its errno
}

// Filter returns the profile as the kernel of this machine's architecture reads it:
// an array of struct sock_filter, not to be changed.
func (p *Profile) Filter(g Gaps) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if prog, ok := p.filters[g]; ok {
		return prog, nil
	}
	raw, err := p.assemble(g)
	if err != nil {
		return nil, fmt.Errorf("seccomp profile %s: %w", p.Name, err)
	}
	prog := encode(raw)
	if p.filters == nil {
		p.filters = map[Gaps][]byte{}
	}
	p.filters[g] = prog
	return prog, nil
}

// encode makes an array of struct sock_filter.
func encode(raw []bpf.RawInstruction) []byte {
	prog := make([]byte, 0, 8*len(raw))
	for _, i := range raw {
		prog = binary.NativeEndian.AppendUint16(prog, i.Op)
		prog = append(prog, i.Jt, i.Jf)
		prog = binary.NativeEndian.AppendUint32(prog, i.K)
	}
	return prog
}

// Default returns the filter of the standard profile for a task that has its own
// namespaces.
func Default() ([]byte, error) {
	p, err := Standard()
	if err != nil {
		return nil, err
	}
	return p.Filter(Gaps{})
}

// native is the architecture of this program.
var native = sync.OnceValues(func() (*arch.Info, error) { return arch.GetInfo("") })

// newer are the system calls that the library does not know. Their numbers are the
// same on every architecture of ours.
var newer = map[string]uint32{
	"setxattrat": unix.SYS_SETXATTRAT, "getxattrat": unix.SYS_GETXATTRAT, "listxattrat": unix.SYS_LISTXATTRAT,
	"removexattrat": unix.SYS_REMOVEXATTRAT, "open_tree_attr": unix.SYS_OPEN_TREE_ATTR,
	"file_getattr": unix.SYS_FILE_GETATTR, "file_setattr": unix.SYS_FILE_SETATTR,
	"listns": unix.SYS_LISTNS, "rseq_slice_yield": lastKnown,
}

// lastKnown is the highest number of a system call that the standard profile was
// reviewed with.
const lastKnown = unix.SYS_RSEQ_SLICE_YIELD

// number finds a system call of this machine's architecture.
func number(info *arch.Info, name string) (uint32, bool) {
	if nr, ok := newer[name]; ok {
		return nr, true
	}
	nr, ok := info.SyscallNames[name]
	return uint32(nr), ok
}

// elsewhere says whether another architecture has a system call of that name.
func elsewhere(name string) bool {
	for _, info := range []*arch.Info{arch.X86_64, arch.I386, arch.ARM, arch.AARCH64, arch.X32, arch.PPC64LE, arch.S390X, arch.MIPS64} {
		if _, ok := info.SyscallNames[name]; ok {
			return true
		}
	}
	return false
}
