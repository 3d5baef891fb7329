package allocdir_test

import (
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testthread"
)

// as runs fn on a thread with the file system uid of a user.
func as(t *testing.T, user int, fn func() error) (err error) {
	t.Helper()
	testthread.Run(func() {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(user), 0, 0); errno == 0 {
			err = fn()
		}
	})
	return err
}

// asUser runs fn as the user of a task.
func asUser(t *testing.T, fn func() error) error {
	t.Helper()
	return as(t, uid, fn)
}
