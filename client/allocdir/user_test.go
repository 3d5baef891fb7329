package allocdir_test

import (
	"runtime"
	"syscall"
	"testing"
)

// asUser runs fn on a thread with the task's file system uid. The thread exits with the
// goroutine.
func asUser(t *testing.T, fn func() error) error {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must not be reused
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uid, 0, 0); errno != 0 {
			result <- nil
			return
		}
		result <- fn()
	}()
	return <-result
}
