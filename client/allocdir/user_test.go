package allocdir_test

import (
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testthread"
)

// as runs fn on a thread with the file system uid and gid of a user, and without other groups: the group of root may pass
// through the directory of an allocation.
func as(t *testing.T, user int, fn func() error) (err error) {
	t.Helper()
	testthread.Run(func() {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			err = errno
			return
		}
		syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(user), 0, 0)
		syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(user), 0, 0)
		err = fn()
	})
	return err
}

// asUser runs fn as the user of a task.
func asUser(t *testing.T, fn func() error) error {
	t.Helper()
	return as(t, uid, fn)
}
