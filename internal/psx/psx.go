// Package psx makes system calls that change a thread for good, on the calling thread
// alone. It takes the place of the module of that name (go.mod: replace), which makes them
// on every thread of the process and is there for go-landlock only.
//
// The sandbox stage is one goroutine on one thread, which executes a program in its own
// place: the kernel ends the other threads, the Go runtime's own, at that execve. To
// signal each of them and wait until it has answered took two times half a millisecond of
// every start.
//
// It fails closed: until somebody has said that one thread is all there is to restrict,
// each call is refused, so that no program believes itself to be restricted when it is in
// part.
package psx

import "syscall"

// callingThread says that OneThread was called.
var callingThread bool

// OneThread declares that the calling goroutine is held to its thread and that the other
// threads of the process will run nothing but the Go runtime's own code until an execve
// ends them. Call it from that goroutine, before any other call.
func OneThread() { callingThread = true }

// Syscall3 is syscall.RawSyscall; ENOTSUP before OneThread.
func Syscall3(nr, a1, a2, a3 uintptr) (r1, r2 uintptr, err syscall.Errno) {
	if !callingThread {
		return ^uintptr(0), 0, syscall.ENOTSUP
	}
	return syscall.RawSyscall(nr, a1, a2, a3)
}

// Syscall6 is syscall.RawSyscall6; ENOTSUP before OneThread.
func Syscall6(nr, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err syscall.Errno) {
	if !callingThread {
		return ^uintptr(0), 0, syscall.ENOTSUP
	}
	return syscall.RawSyscall6(nr, a1, a2, a3, a4, a5, a6)
}
