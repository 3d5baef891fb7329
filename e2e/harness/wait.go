package harness

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// Within waits for a condition: for the limit, and longer on a busy machine. Time limits of the
// product are measured, not waited for.
func Within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	testpace.Within(t, max(limit, Patience), what, ok)
}

// Succeeds calls try until it returns nil. When the time is up, it reports the last error.
func Succeeds(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Logf("%s: %v", what, err)
		}
	}()
	Within(t, Patience, what, func() bool {
		err = try()
		return err == nil
	})
}

// Patience bounds what should take milliseconds, on a busy machine.
const Patience = time.Minute

// Acknowledged repeats a write until it is acknowledged: servers that stall have no leader for a time, or
// cannot report the result of a write.
func Acknowledged(t *testing.T, what string, write func() error) {
	t.Helper()
	tries := 0
	Succeeds(t, what, func() error {
		tries++
		err := write()
		switch code := StatusCode(err); {
		case err == nil, tries > 1 && code == http.StatusNotFound: // an earlier attempt deleted it
			return nil
		case code != http.StatusInternalServerError:
			t.Fatalf("%s: %v", what, err)
		}
		return err
	})
}

// WaitGone waits until the processes have ended. A zombie counts as ended: its parent has not
// waited for it yet.
func WaitGone(t *testing.T, pids []string) {
	t.Helper()
	for _, p := range pids {
		pid, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		Within(t, 10*time.Second, "the end of process "+p, func() bool {
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		})
	}
}

// Gone reports whether a process has ended.
func Gone(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err != nil
}
