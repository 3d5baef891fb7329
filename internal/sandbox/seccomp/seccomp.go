// Package seccomp generates the seccomp filters of sandboxed tasks. The agent generates each filter
// once and passes it to the sandbox stage in the policy. To load the tables of the generator in the
// stage would cost each start half a millisecond. The package applies no filter and starts no
// goroutine.
//
// A filter consists of parts, each of which returns a verdict or continues with the next:
//
//	guard      calls of another architecture and of x32: ENOSYS. In every filter.
//	gaps       what other layers of the sandbox do not restrict. In every filter.
//	clone3     ENOSYS, so that libraries use clone, whose flags a filter can check
//	sockets …  of the standard profile: checks of arguments (standard.go)
//	rules      of the profile, in order (assemble.go)
//	default    the profile's action if no rule matched
//
// The library go-seccomp-bpf assembles the rules. The other parts are our own instructions. The
// library has one action per policy, compares arguments as 64 bits only, and lacks the newest system
// calls.
//
// The standard profile refuses calls that no task needs and that many exploits use, and all system
// calls newer than its list. Operators' profiles are files in the OCI's JSON format (oci.go).
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

// Available returns an error if this kernel does not support seccomp filters.
func Available() error {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if e != 0 {
		return fmt.Errorf("seccomp filters are not available in this kernel: %w", e)
	}
	return nil
}

// Gaps are restrictions that other layers of a task's sandbox lack. A filter closes them as far as
// possible, whatever its profile.
type Gaps struct {
	IPC       bool // no IPC namespace: System V objects and POSIX message queues are shared
	Processes bool // no PID namespace: limits of other processes of the same user can be changed by number
	Ports     bool // TCP ports are restricted, which Landlock does for connect and bind only
}

// Profile is an immutable set of rules for system calls.
type Profile struct {
	Name string

	head      []bpf.Instruction // standard profile only
	rules     []rule
	otherwise lib.Action

	mu      sync.Mutex
	filters map[Gaps][]byte
}

// rule is an action for some system calls.
type rule struct {
	where  string // position in the profile's file, for errors
	names  []string
	when   []lib.Condition // all must hold; empty: always
	action lib.Action      // with its errno
}

// Filter returns the filter for this machine's architecture: an array of struct sock_filter. The
// caller must not change it.
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

// encode returns an array of struct sock_filter.
func encode(raw []bpf.RawInstruction) []byte {
	prog := make([]byte, 0, 8*len(raw))
	for _, i := range raw {
		prog = binary.NativeEndian.AppendUint16(prog, i.Op)
		prog = append(prog, i.Jt, i.Jf)
		prog = binary.NativeEndian.AppendUint32(prog, i.K)
	}
	return prog
}

// native is the architecture of this program.
var native = sync.OnceValues(func() (*arch.Info, error) { return arch.GetInfo("") })

// newer are system calls that the library does not have. Their numbers are the same on every
// supported architecture.
var newer = map[string]uint32{
	"setxattrat": unix.SYS_SETXATTRAT, "getxattrat": unix.SYS_GETXATTRAT, "listxattrat": unix.SYS_LISTXATTRAT,
	"removexattrat": unix.SYS_REMOVEXATTRAT, "open_tree_attr": unix.SYS_OPEN_TREE_ATTR,
	"file_getattr": unix.SYS_FILE_GETATTR, "file_setattr": unix.SYS_FILE_SETATTR,
	"listns": unix.SYS_LISTNS, "rseq_slice_yield": lastKnown,
}

// lastKnown is the highest system call number that was reviewed for the standard profile.
const lastKnown = unix.SYS_RSEQ_SLICE_YIELD

// number returns the number of a system call on this machine's architecture.
func number(info *arch.Info, name string) (uint32, bool) {
	if nr, ok := newer[name]; ok {
		return nr, true
	}
	nr, ok := info.SyscallNames[name]
	return uint32(nr), ok
}

// elsewhere reports whether another architecture has a system call of that name.
func elsewhere(name string) bool {
	for _, info := range []*arch.Info{arch.X86_64, arch.I386, arch.ARM, arch.AARCH64, arch.X32, arch.PPC64LE, arch.S390X, arch.MIPS64} {
		if _, ok := info.SyscallNames[name]; ok {
			return true
		}
	}
	return false
}
