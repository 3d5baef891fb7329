package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/supervise/server"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// rig is a supervisor's directory and the clients of successive agents.
type rig struct {
	t    testing.TB
	dir  string // of the supervisor
	logs string
	n    int
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "supervise"), logs: t.TempDir()}
	t.Cleanup(func() {
		c := r.client()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := c.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
	})
	return r
}

// client returns the client of a new agent.
func (r *rig) client() *supervise.Client {
	r.t.Helper()
	c := supervise.NewClient(r.dir, slog.New(slog.NewTextHandler(r.t.Output(), nil)))
	r.t.Cleanup(func() { c.Close() })
	return c
}

// spec returns a task that runs a script, in its own control group if possible.
func (r *rig) spec(script string) *proc.Spec {
	r.n++
	id := fmt.Sprintf("%s/%d", r.t.Name(), r.n)
	policy, err := sandbox.Encode(&sandbox.Policy{Argv: []string{"/bin/sh", "-c", script}, Dir: r.logs,
		Env: []string{"PATH=/usr/bin:/bin"}, KeepCapabilities: true, KeepPrivileges: true, Seccomp: sandbox.SeccompNone})
	if err != nil {
		r.t.Fatal(err)
	}
	s := &proc.Spec{ID: id, Entry: sandbox.Entry, Policy: policy,
		Logs: proc.Logs{Root: r.logs, Name: "t" + strconv.Itoa(r.n), MaxFiles: 10, MaxBytes: 1 << 20}}
	if h, err := cgroup.Detect(); err == nil && h.Usable() == nil {
		s.Group = &proc.GroupSpec{Group: proc.Group{Parent: "nomad-test.slice",
			Name: fmt.Sprintf("supervise-%d-%s.%d", os.Getpid(), filepath.Base(filepath.Dir(filepath.Dir(r.dir))), r.n)}}
	}
	return s
}

// start starts a task or fails the test.
func (r *rig) start(c *supervise.Client, s *proc.Spec) *proc.Task {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	task, err := c.Start(ctx, s)
	if err != nil {
		r.t.Fatalf("Start() = %v", err)
	}
	return task
}

func (r *rig) wait(c *supervise.Client, id string) *proc.Exit {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	exit, err := c.Wait(ctx, id)
	if err != nil {
		r.t.Fatalf("Wait() = %v", err)
	}
	return exit
}

// stdout returns the output of a task from all its files.
func (r *rig) stdout(s *proc.Spec) string {
	r.t.Helper()
	var b strings.Builder
	for n := range 1000 {
		part, err := os.ReadFile(filepath.Join(r.logs, fmt.Sprintf("%s.stdout.%d", s.Logs.Name, n)))
		if err == nil {
			b.Write(part)
		}
	}
	return b.String()
}

// supervisor returns the PID of the process that holds the lock of the rig.
func (r *rig) supervisor() int {
	r.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.HasPrefix(string(args), server.Entry+"\x00"+r.dir+"\x00") {
			return pid
		}
	}
	r.t.Fatal("no supervisor runs")
	return 0
}

// crash kills the supervisor.
func (r *rig) crash() {
	r.t.Helper()
	pid := r.supervisor()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	if !r.ended(fd, 2*time.Minute) {
		r.t.Fatalf("supervisor %d has not ended after SIGKILL", pid)
	}
}

// ended reports whether the process of a pidfd ends within a time. Signals, such as those of the Go
// runtime to its own threads, interrupt the wait.
func (r *rig) ended(pidfd int, within time.Duration) bool {
	r.t.Helper()
	for late := time.Now().Add(within); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(max(0, time.Until(late)).Milliseconds()))
		switch {
		case err == unix.EINTR:
		case err != nil:
			r.t.Fatal(err)
		default:
			return n > 0
		}
	}
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }

// named lists the children of the supervisor with a name.
func (r *rig) named(name string) []int {
	r.t.Helper()
	var out []int
	for _, pid := range childrenOf(r.t, r.supervisor()) {
		if comm(pid) == name {
			out = append(out, pid)
		}
	}
	return out
}

// childrenOf lists the children of all threads of a process that may have ended.
func childrenOf(t testing.TB, pid int) []int {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, name := range threads {
		text, _ := os.ReadFile(name) // the thread may have ended
		for _, f := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

func comm(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
