package attack

import (
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

func cstring(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

func addr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// int80 makes a system call of the 32-bit architecture. Some virtual machines do not support it,
// and the instruction then causes a fault.
func int80(nr uintptr) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = unix.ENOSYS
		}
	}()
	r := legacyCall(nr)
	if r >= ^uintptr(4095)+1 || int32(r) < 0 {
		return unix.Errno(-int32(r))
	}
	return nil
}
