package landlock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Internal reports whether an open file is on a file system of the kernel that is mounted nowhere,
// such as a memory file of memfd_create(2). Landlock has no rules for such files and does not
// restrict them.
func Internal(fd int) (bool, error) {
	a := access{fs: unix.LANDLOCK_ACCESS_FS_EXECUTE}
	trial, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&a)), size(ABIFiles), 0)
	if e != 0 {
		return false, fmt.Errorf("%w: create landlock ruleset: %w", ErrUnavailable, e)
	}
	defer unix.Close(int(trial))
	err := allowBeneath(int(trial), fd, unix.LANDLOCK_ACCESS_FS_EXECUTE)
	if err == unix.EBADFD {
		return true, nil
	}
	return false, err
}
