//go:build !amd64

package attack

// legacyCall returns -ENOSYS where there is no second system call convention.
func legacyCall(uintptr) uintptr { return ^uintptr(37) } // -ENOSYS
