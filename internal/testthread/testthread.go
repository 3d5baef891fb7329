// Package testthread runs functions of tests on threads of their own. A test uses it for a change that belongs to a
// thread and cannot be taken back: another namespace, another user, a seccomp filter.
//
//	testthread.Run(func() { err = unix.Setns(fd, unix.CLONE_NEWNET); ... })
package testthread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Run calls f on a thread that ends when f returns. It is never the main thread of the process: Go parks that one
// forever instead of ending it, and its namespaces would remain as long as the process.
func Run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		Run(f) // on another thread, because this goroutine holds the main one
		runtime.UnlockOSThread()
	}()
	<-done
}
