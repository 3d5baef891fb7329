package attack

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func cstring(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

func addr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// int80 makes a system call of the 32-bit architecture, where there is one.
func int80(nr uintptr) error {
	r := legacyCall(nr)
	if r >= ^uintptr(4095)+1 || int32(r) < 0 {
		return unix.Errno(-int32(r))
	}
	return nil
}
