//go:build !amd64

package attack

// legacyCall is refused where there is no second way to call the kernel.
func legacyCall(uintptr) uintptr { return ^uintptr(37) } // -ENOSYS
