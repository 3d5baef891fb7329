package landlock

import (
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ruleNetPort is LANDLOCK_RULE_NET_PORT of linux/landlock.h.
const ruleNetPort = 2

// netPort is struct landlock_net_port_attr, pathBeneath landlock_path_beneath_attr.
type (
	netPort     struct{ allowed, port uint64 }
	pathBeneath struct {
		allowed uint64
		parent  int32
	}
)

// restrictRest applies the second layer to the thread.
func (r Ruleset) restrictRest(abi int, files []file) error {
	a := secondLayer(abi, r.TCP != nil)
	if r.Ioctl {
		a.fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if r.Signal {
		a.scoped &^= unix.LANDLOCK_SCOPE_SIGNAL
	}
	if r.Log {
		a.fs |= inFirstLayer // ABIAudit has them all
	}
	if a == (access{}) {
		return nil
	}
	sockets := a.fs & unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	if abi >= ABIRefer {
		a.fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&a)), size(abi), 0)
	if e != 0 {
		return fmt.Errorf("create landlock ruleset: %w", e)
	}
	defer unix.Close(int(fd))
	switch {
	case r.Log:
		if err := allowFiles(int(fd), files); err != nil {
			return err
		}
	case abi >= ABIRefer:
		if err := allowMoves(int(fd)); err != nil {
			return err
		}
	}
	if sockets != 0 {
		if err := allowSockets(int(fd), files); err != nil {
			return err
		}
	}
	if a.fs&unix.LANDLOCK_ACCESS_FS_IOCTL_DEV != 0 {
		if err := allowDevices(int(fd), files); err != nil {
			return err
		}
	}
	if r.TCP != nil {
		if err := addPorts(int(fd), r.TCP); err != nil {
			return err
		}
	}
	flags := uintptr(0)
	if r.Log {
		flags = unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, flags, 0); e != 0 {
		return fmt.Errorf("restrict %s: %w", strings.Join(between(ABITruncate, abi), ", "), e)
	}
	return nil
}

// allowMoves allows moves between directories everywhere. A ruleset denies them even if it does not
// handle them; the paths of the first layer restrict them.
func allowMoves(ruleset int) error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /: %w", err)
	}
	defer unix.Close(root)
	if err := allowBeneath(ruleset, root, unix.LANDLOCK_ACCESS_FS_REFER); err != nil {
		return fmt.Errorf("allow moving between directories: %w", err)
	}
	return nil
}

// filesOf are the rights that go-landlock grants for a mode, on a directory.
var filesOf = map[rune]uint64{
	'r': unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR,
	'w': unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE,
	'x': unix.LANDLOCK_ACCESS_FS_EXECUTE,
	'c': unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER,
}

// onFiles are the ones that apply to a file that is not a directory.
const onFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
	unix.LANDLOCK_ACCESS_FS_EXECUTE

// allowFiles grants the same rights as the first layer. Both layers must deny the same, or the
// kernel does not log the denial.
func allowFiles(ruleset int, files []file) error {
	for _, f := range files {
		var rights uint64
		for _, m := range f.Modes {
			rights |= filesOf[m]
		}
		if f.kind() != unix.S_IFDIR {
			rights &= onFiles
		}
		if err := allowBeneath(ruleset, f.FD, rights); err != nil {
			return fmt.Errorf("allow %s: %w", f.Name, err)
		}
	}
	return nil
}

// allowSockets allows connecting to the sockets of granted paths.
func allowSockets(ruleset int, files []file) error {
	for _, f := range files {
		if !f.connectable() {
			continue
		}
		if err := allowBeneath(ruleset, f.FD, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX); err != nil {
			return fmt.Errorf("allow sockets of %s: %w", f.Name, err)
		}
	}
	return nil
}

// allowDevices allows ioctl on device nodes.
func allowDevices(ruleset int, files []file) error {
	for _, f := range files {
		if !f.Device {
			continue
		}
		if kind := f.kind(); kind != unix.S_IFCHR && kind != unix.S_IFBLK {
			return fmt.Errorf("allow ioctl on %s: not a device node", f.Name)
		}
		if err := allowBeneath(ruleset, f.FD, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV); err != nil {
			return fmt.Errorf("allow ioctl on %s: %w", f.Name, err)
		}
	}
	return nil
}

// connectable reports whether the path's modes allow connecting to its sockets.
func (f file) connectable() bool {
	switch f.kind() {
	case unix.S_IFDIR:
		return strings.Contains(f.Modes, "r") && strings.Contains(f.Modes, "w")
	case unix.S_IFSOCK:
		return strings.Contains(f.Modes, "w")
	}
	return false
}

func allowBeneath(ruleset, parent int, rights uint64) error {
	attr := pathBeneath{allowed: rights, parent: int32(parent)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func addPorts(ruleset int, p *Ports) error {
	allow := map[uint16]uint64{}
	for _, port := range p.Bind {
		allow[port] |= unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	for _, port := range p.Connect {
		allow[port] |= unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	for port, rights := range allow {
		attr := netPort{allowed: rights, port: uint64(port)}
		_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), ruleNetPort,
			uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
		if e != 0 {
			return fmt.Errorf("allow TCP port %d: %w", port, e)
		}
	}
	return nil
}
