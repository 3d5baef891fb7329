package testnet

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
)

// Namespace returns the path of a network namespace that lives as long as the test. It belongs to a process, since a
// thread of this process could be its main thread.
func Namespace(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // waited for
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
}
