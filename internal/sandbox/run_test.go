package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// script returns a command that runs a script as the test's user, and its output.
func script(t *testing.T, text string, own bool) (*sandbox.Command, *bufio.Reader) {
	t.Helper()
	if own && os.Geteuid() != 0 {
		t.Skip("needs root: namespaces")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close(); null.Close() })
	return &sandbox.Command{KillRest: true, Stdio: [3]*os.File{null, w, w}, Policy: &sandbox.Policy{
		Argv: []string{"/bin/sh", "-c", text}, Dir: "/", Env: sandbox.Environment{"PATH=/usr/bin:/bin"},
		KeepCapabilities: true, KeepPrivileges: true, Seccomp: sandbox.SeccompNone, PrivatePID: own}}, bufio.NewReader(r)
}

// both runs a test with and without a PID namespace.
func both(t *testing.T, test func(t *testing.T, own bool)) {
	t.Run("own PID namespace", func(t *testing.T) { test(t, true) })
	t.Run("session", func(t *testing.T) { test(t, false) })
}

// gone reports whether no process has the argument. PIDs are different inside of a namespace.
func gone(t *testing.T, mark string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if text, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && strings.HasSuffix(string(text), "\x00"+mark+"\x00") {
			return false
		}
	}
	return true
}

// mark returns an argument of sleep(1) that no other process has.
func mark(n int) string { return strconv.Itoa(100_000+os.Getpid()) + "." + strconv.Itoa(n) }

func TestRun(t *testing.T) {
	both(t, func(t *testing.T, own bool) {
		for text, want := range map[string]unix.WaitStatus{"exit 3": 3 << 8, "kill -TERM $$": unix.WaitStatus(unix.SIGTERM)} {
			c, _ := script(t, text, own)
			started := 0
			if ws, err := c.Run(t.Context(), func() { started++ }); err != nil || ws != want || started != 1 {
				t.Errorf("%q: Run() = %#x, %v, want %#x; started was called %d times", text, ws, err, want, started)
			}
		}
	})
}

// A program that cannot be executed is an error.
func TestRunRefused(t *testing.T) {
	both(t, func(t *testing.T, own bool) {
		c, _ := script(t, "", own)
		c.Policy.Argv = []string{"/no/such/program"}
		_, err := c.Run(t.Context(), func() { t.Error("started was called") })
		if refused, ok := errors.AsType[*launch.RefusedError](err); !ok || !strings.Contains(refused.Reason, "/no/such/program") {
			t.Errorf("Run() = %v, want a refusal", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c, _ = script(t, "exit 3", own)
		if _, err := c.Run(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Run() after the end of its context = %v", err)
		}
	})
}

// The end of the context, and the end of the program, end all descendants. Those in another session
// need a PID namespace, or a control group of their own.
func TestRunEndsDescendants(t *testing.T) {
	both(t, func(t *testing.T, own bool) {
		a, b := mark(1), mark(2)
		detached := "sleep " + b
		if own {
			detached = "setsid sleep " + b
		}
		text := "sleep " + a + " & (" + detached + " & ) ; echo up; "
		for name, tt := range map[string]struct {
			script string
			end    bool
			want   unix.WaitStatus
		}{
			"context": {"wait", true, unix.WaitStatus(unix.SIGKILL)},
			"program": {"exit 0", false, 0},
		} {
			c, out := script(t, text+tt.script, own)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if _, err := out.ReadString('\n'); err == nil && tt.end {
					cancel()
				}
			}()
			if ws, err := c.Run(ctx, nil); err != nil || ws != tt.want {
				t.Errorf("end of the %s: Run() = %#x, %v, want %#x", name, ws, err, tt.want)
			}
			cancel()
			testpace.Until(t, "the descendants end", func() bool { return gone(t, a) && gone(t, b) })
		}
	})
}

// The context may end at any moment of a start: a program that was executed in that moment ends with
// its descendants, too.
func TestRunEndsAtOnce(t *testing.T) {
	both(t, func(t *testing.T, own bool) {
		a := mark(3)
		for range 30 {
			c, out := script(t, "sleep "+a+" & echo up; wait", own)
			ctx, cancel := context.WithCancel(t.Context())
			c.Stdio[2] = c.Stdio[0]
			go func() {
				out.ReadString('\n') //nolint:errcheck // it is up, or has ended
				cancel()
			}()
			if ws, err := c.Run(ctx, nil); err != nil || ws != unix.WaitStatus(unix.SIGKILL) {
				t.Fatalf("Run() = %#x, %v, want SIGKILL", ws, err)
			}
			cancel()
		}
		testpace.Until(t, "the descendants end", func() bool { return gone(t, a) })
	})
}

// Without KillRest, as in a session of a task, descendants continue.
func TestRunKeepsDescendants(t *testing.T) {
	c, out := script(t, "sleep 1000 & echo $!; exit 0", false)
	c.KillRest = false
	if _, err := c.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Errorf("kill the descendant: %v: it has ended", err)
	}
}
