package landlock

import (
	"testing"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx" // ours, see go.mod
)

// TestNotDeclared: where nobody declared that one thread is all there is to restrict,
// as in this process, no call is made.
func TestNotDeclared(t *testing.T) {
	calls := map[string]func() (uintptr, uintptr, unix.Errno){
		"Syscall3": func() (uintptr, uintptr, unix.Errno) { return psx.Syscall3(unix.SYS_GETPID, 0, 0, 0) },
		"Syscall6": func() (uintptr, uintptr, unix.Errno) { return psx.Syscall6(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0) },
	}
	for name, call := range calls {
		if r, _, err := call(); r != ^uintptr(0) || err != unix.ENOTSUP {
			t.Errorf("%s = %d, %v, want it refused with ENOTSUP", name, int(r), err)
		}
	}
}
