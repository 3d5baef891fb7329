package allocdir_test

import (
	"runtime"
	"syscall"
	"testing"
)

// asUser runs fn on a thread that has the task's uid for files. The thread dies
// with the goroutine.
func asUser(t *testing.T, fn func() error) error {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must not be used again
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uid, 0, 0); errno != 0 {
			result <- nil
			return
		}
		result <- fn()
	}()
	return <-result
}
