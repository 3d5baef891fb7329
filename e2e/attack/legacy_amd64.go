package attack

// legacyCall makes a system call the way of 32-bit programs, with arguments of zero.
func legacyCall(nr uintptr) uintptr
