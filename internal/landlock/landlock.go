// Package landlock takes file, network, signal and socket rights away from the
// calling process, for good, with the kernel's Landlock.
//
// Two layers are laid on each other; what either denies is denied:
//
//	go-landlock   every file right up to truncate, given back by path
//	this package  what that library does not handle: device ioctl (ABI 5),
//	              TCP ports (ABI 4), abstract unix sockets and signals
//	              to the outside (ABI 6)
//
// Rules are a union along a path: a narrower grant below a wider one denies
// nothing. Landlock says nothing about stat, chmod, chown, UDP, path unix sockets
// (before ABI 9), user namespaces or descriptors opened before. It needs no
// privilege. It fails closed: what was asked for and can't be enforced is an error.
package landlock

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	lib "github.com/shoenig/go-landlock"
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
	v, err := lib.Detect()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return v, nil
}

// Path gives back rights below one file or directory.
type Path struct {
	Modes string   // any of r, w, x, c (create and remove)
	File  *os.File // opened with O_PATH: the rule is for this very inode
	Name  string   // for errors
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

// Restrict puts the calling process under r. It sets no_new_privs. On error the
// process may be restricted in part: it must not go on to run a task.
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
	paths, err := r.libPaths()
	if err != nil {
		return err
	}
	if err := lib.New(paths...).Lock(lib.Mandatory); err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	return r.restrictRest(abi)
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

// libPaths turns the opened files into paths that lead to exactly them.
func (r Ruleset) libPaths() ([]*lib.Path, error) {
	out := make([]*lib.Path, 0, len(r.Paths))
	for _, p := range r.Paths {
		if !ValidModes(p.Modes) {
			return nil, fmt.Errorf("modes %q of %s: want any of r, w, x, c", p.Modes, p.Name)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(p.File.Fd()), &st); err != nil {
			return nil, fmt.Errorf("stat %s: %w", p.Name, err)
		}
		at := fmt.Sprintf("/proc/self/fd/%d", p.File.Fd())
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			out = append(out, lib.Dir(at, p.Modes))
		} else {
			out = append(out, lib.File(at, p.Modes))
		}
	}
	return out, nil
}

// ruleset is struct landlock_ruleset_attr.
type ruleset struct {
	fs, net, scoped uint64
}

// ruleNetPort is LANDLOCK_RULE_NET_PORT of linux/landlock.h.
const ruleNetPort = 2

// netPort is struct landlock_net_port_attr.
type netPort struct {
	allowed, port uint64
}

// restrictRest lays the second layer over the calling thread, which is the one
// that will execute the task: other threads end there.
func (r Ruleset) restrictRest(abi int) error {
	var rs ruleset
	if abi >= ABIIoctl {
		rs.fs = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= ABIScopes {
		rs.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if r.TCP != nil {
		rs.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if rs == (ruleset{}) {
		return nil
	}
	if abi >= ABIRefer {
		rs.fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rs)), attrSize(abi), 0)
	if e != 0 {
		return fmt.Errorf("create landlock ruleset: %w", e)
	}
	defer unix.Close(int(fd))
	if abi >= ABIRefer {
		if err := allowMoves(int(fd)); err != nil {
			return err
		}
	}
	if r.TCP != nil {
		if err := addPorts(int(fd), r.TCP); err != nil {
			return err
		}
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return fmt.Errorf("restrict scopes: %w", e)
	}
	return nil
}

// pathBeneath is struct landlock_path_beneath_attr.
type pathBeneath struct {
	allowed uint64
	parent  int32
}

// allowMoves gives moving between directories back, everywhere: a ruleset denies
// that even when it does not handle it, and in the first layer the paths decide.
func allowMoves(ruleset int) error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /: %w", err)
	}
	defer unix.Close(root)
	attr := pathBeneath{allowed: unix.LANDLOCK_ACCESS_FS_REFER, parent: int32(root)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0); e != 0 {
		return fmt.Errorf("allow moving between directories: %w", e)
	}
	return nil
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
