package e2e

import (
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// waitGone waits until the processes have ended. A zombie counts as ended: its parent has not
// waited for it yet.
func waitGone(t *testing.T, pids []string) {
	t.Helper()
	for _, p := range pids {
		pid, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		within(t, 10*time.Second, "the end of process "+p, func() bool {
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		})
	}
}
