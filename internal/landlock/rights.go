package landlock

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// ABI versions that introduced a right, and their kernels.
const (
	ABIFiles    = 1 // Linux 5.13
	ABIRefer    = 2 // 5.19
	ABITruncate = 3 // 6.2
	ABITCP      = 4 // 6.7
	ABIIoctl    = 5 // 6.10
	ABIScopes   = 6 // 6.12
	ABIAudit    = 7 // 6.15: no new right, but the kernel can log denials
	ABISockets  = 9 // 7.1; 8 only restricts all threads at once, which an execve makes unnecessary
)

// access is struct landlock_ruleset_attr.
type access struct {
	fs, net, scoped uint64
}

// right is a right that one ABI version can remove.
type right struct {
	abi    int
	name   string
	access access
	ports  bool // only if ports are restricted
}

// rights are all rights, oldest first.
var rights = []right{
	{abi: ABIFiles, name: "files", access: access{fs: filesV1}},
	{abi: ABIRefer, name: "moves between directories", access: access{fs: unix.LANDLOCK_ACCESS_FS_REFER}},
	{abi: ABITruncate, name: "truncation", access: access{fs: unix.LANDLOCK_ACCESS_FS_TRUNCATE}},
	{abi: ABITCP, name: "TCP ports", access: access{net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP},
		ports: true},
	{abi: ABIIoctl, name: "ioctl on devices", access: access{fs: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}},
	{abi: ABIScopes, name: "abstract unix sockets", access: access{scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}},
	{abi: ABIScopes, name: "signals", access: access{scoped: unix.LANDLOCK_SCOPE_SIGNAL}},
	{abi: ABISockets, name: "unix sockets in the file system", access: access{fs: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX}},
}

// filesV1 are the rights on files of the first ABI.
const filesV1 = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
	unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
	unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
	unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
	unix.LANDLOCK_ACCESS_FS_MAKE_SYM

// inFirstLayer are the rights that go-landlock handles.
const inFirstLayer = filesV1 | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE

// secondLayer returns the rights that this package itself removes on a kernel with that ABI.
func secondLayer(abi int, ports bool) access {
	var a access
	for _, r := range rights {
		if r.abi > abi || r.ports && !ports {
			continue
		}
		a.fs |= r.access.fs &^ inFirstLayer
		a.net |= r.access.net
		a.scoped |= r.access.scoped
	}
	return a
}

// size returns the size of struct landlock_ruleset_attr that a kernel with that ABI accepts.
func size(abi int) uintptr {
	switch {
	case abi >= ABIScopes:
		return 24
	case abi >= ABITCP:
		return 16
	}
	return 8
}

// between lists the rights introduced after ABI have, up to ABI want.
func between(have, want int) []string {
	var out []string
	for _, r := range rights {
		if r.abi > have && r.abi <= want {
			out = append(out, r.name)
		}
	}
	return out
}

// TooOld is the error for a kernel whose ABI is below the required one.
type TooOld struct{ Have, Want int }

func (e *TooOld) Error() string {
	s := fmt.Sprintf("landlock ABI %d of this kernel is below the required %d", e.Have, e.Want)
	if lacks := between(e.Have, e.Want); len(lacks) > 0 {
		s += ", which restricts " + strings.Join(lacks, ", ")
	}
	return s
}
