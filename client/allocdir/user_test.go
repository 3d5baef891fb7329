package allocdir_test

import (
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testthread"
)

// asUser runs fn on a thread with the task's file system uid.
func asUser(t *testing.T, fn func() error) (err error) {
	t.Helper()
	testthread.Run(func() {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uid, 0, 0); errno == 0 {
			err = fn()
		}
	})
	return err
}
