package attack

// legacyCall makes a system call with the 32-bit convention and zero arguments.
func legacyCall(nr uintptr) uintptr
