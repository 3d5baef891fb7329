// Package landlock takes file, network, signal and socket rights away from the
// calling thread, and from the program it executes, for good, with the kernel's
// Landlock.
//
// One ruleset handles every right that the kernel's ABI offers; what it handles
// is denied unless a path or port gives it back:
//
//	ABI 1   files                        given back by path
//	ABI 2   moving between directories   with c
//	ABI 3   truncate                     with w
//	ABI 4   TCP ports                    given back by port; left alone unless asked for
//	ABI 5   device ioctl                 never given back
//	ABI 6   abstract unix sockets and    never given back
//	        signals to the outside
//
// Rules are a union along a path: a narrower grant below a wider one denies
// nothing. Landlock says nothing about stat, chmod, chown, UDP, path unix sockets
// (before ABI 9), user namespaces or descriptors opened before. It needs no
// privilege. It fails closed: what was asked for and can't be enforced is an error.
//
// The system calls are made here and not by a library: those at hand restrict every
// thread of a process, with signals to all of them, and open each path again by
// name, which together took a fifth of a sandboxed start.
package landlock

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ABI versions of the kernel that brought a right.
const (
	ABIFiles    = 1
	ABIRefer    = 2
	ABITruncate = 3
	ABITCP      = 4
	ABIIoctl    = 5
	ABIScopes   = 6
)

// ErrUnavailable means that the kernel has no Landlock, or that it is not enabled.
var ErrUnavailable = errors.New("landlock is not available in this kernel")

// ABI returns the version of Landlock that the kernel offers.
func ABI() (int, error) {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, e)
	}
	if v < ABIFiles {
		return 0, ErrUnavailable
	}
	return int(v), nil
}

// Path gives back rights below one file or directory.
type Path struct {
	Modes string // any of r, w, x, c (create and remove)
	FD    int    // opened with O_PATH, the caller's: the rule is for this very inode
	Name  string // for errors
}

// Ports are the TCP ports that stay usable.
type Ports struct {
	Bind, Connect []uint16
}

// Ruleset is what a process keeps.
type Ruleset struct {
	Paths  []Path
	TCP    *Ports // nil leaves TCP alone
	MinABI int    // a kernel below it is an error
}

// ValidModes says whether s is one or more of r, w, x, c.
func ValidModes(s string) bool {
	return s != "" && strings.Trim(s, "rwxc") == ""
}

// Restrict puts the calling thread under r; the caller keeps its goroutine on it
// and executes the program from it. It sets no_new_privs. On error the thread may
// be restricted in part: it must not go on to run a task.
func (r Ruleset) Restrict() error {
	abi, err := ABI()
	if err != nil {
		return err
	}
	if abi < r.MinABI {
		return fmt.Errorf("landlock ABI %d of this kernel is below the required %d (%s)", abi, r.MinABI, missing(abi, r.MinABI))
	}
	if r.TCP != nil && abi < ABITCP {
		return fmt.Errorf("landlock ABI %d of this kernel cannot restrict TCP ports, which needs %d", abi, ABITCP)
	}
	attr := r.handled(abi)
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), attrSize(abi), 0)
	if e != 0 {
		return fmt.Errorf("create landlock ruleset: %w", e)
	}
	defer unix.Close(int(fd))
	for _, p := range r.Paths {
		if err := p.allow(int(fd), attr.fs); err != nil {
			return err
		}
	}
	if r.TCP != nil {
		if err := addPorts(int(fd), r.TCP); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return fmt.Errorf("restrict by landlock: %w", e)
	}
	return nil
}

// missing names what the ABIs from have+1 to want would bring.
func missing(have, want int) string {
	names := []string{ABIFiles: "files", ABIRefer: "moving between directories", ABITruncate: "truncate",
		ABITCP: "TCP ports", ABIIoctl: "device ioctl", ABIScopes: "abstract sockets and signals"}
	if have+1 >= len(names) {
		return "newer rights"
	}
	return "without: " + strings.Join(names[have+1:min(want+1, len(names))], ", ")
}

// ruleset is struct landlock_ruleset_attr.
type ruleset struct {
	fs, net, scoped uint64
}

// Rights of the first ABI.
const (
	fsFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	fsMake  = unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	fsRemove = unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
	fsFirst  = fsFiles | unix.LANDLOCK_ACCESS_FS_READ_DIR | fsMake | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | fsRemove
)

// handled is every right of the kernel's ABI.
func (r Ruleset) handled(abi int) ruleset {
	rs := ruleset{fs: fsFirst}
	if abi >= ABIRefer {
		rs.fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= ABITruncate {
		rs.fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= ABIIoctl {
		rs.fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= ABIScopes {
		rs.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if r.TCP != nil {
		rs.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	return rs
}

// pathBeneath is struct landlock_path_beneath_attr.
type pathBeneath struct {
	allowed uint64
	parent  int32
}

// allow gives the rights of p back, those of handled.
func (p Path) allow(ruleset int, handled uint64) error {
	if !ValidModes(p.Modes) {
		return fmt.Errorf("modes %q of %s: want any of r, w, x, c", p.Modes, p.Name)
	}
	var st unix.Stat_t
	if err := unix.Fstat(p.FD, &st); err != nil {
		return fmt.Errorf("stat %s: %w", p.Name, err)
	}
	attr := pathBeneath{allowed: rights(p.Modes, st.Mode&unix.S_IFMT == unix.S_IFDIR) & handled, parent: int32(p.FD)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0); e != 0 {
		return fmt.Errorf("allow %s of %s: %w", p.Modes, p.Name, e)
	}
	return nil
}

// rights are those that modes stand for. A file has none that are about entries of
// directories: the kernel refuses them there.
func rights(modes string, dir bool) uint64 {
	var out uint64
	for _, m := range modes {
		switch m {
		case 'r':
			out |= unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
		case 'w':
			out |= unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
		case 'x':
			out |= unix.LANDLOCK_ACCESS_FS_EXECUTE
		case 'c':
			out |= fsMake | fsRemove | unix.LANDLOCK_ACCESS_FS_REFER
		}
	}
	if !dir {
		out &= fsFiles | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return out
}

// ruleNetPort is LANDLOCK_RULE_NET_PORT of linux/landlock.h.
const ruleNetPort = 2

// netPort is struct landlock_net_port_attr.
type netPort struct {
	allowed, port uint64
}

// attrSize is how much of ruleset a kernel of that ABI knows.
func attrSize(abi int) uintptr {
	switch {
	case abi >= ABIScopes:
		return 24
	case abi >= ABITCP:
		return 16
	}
	return 8
}

func addPorts(fd int, p *Ports) error {
	allow := map[uint16]uint64{}
	for _, port := range p.Bind {
		allow[port] |= unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	for _, port := range p.Connect {
		allow[port] |= unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	for port, rights := range allow {
		attr := netPort{allowed: rights, port: uint64(port)}
		_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(fd), ruleNetPort,
			uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
		if e != 0 {
			return fmt.Errorf("allow TCP port %d: %w", port, e)
		}
	}
	return nil
}
