package e2e

import (
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// waitGone waits until the processes have ended. A zombie has: its parent only
// has not asked yet.
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
