package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// withInit returns a task with its own PID namespace.
func (r *rig) withInit(script string) *proc.Spec {
	r.t.Helper()
	if os.Geteuid() != 0 {
		r.t.Skip("needs root: namespaces")
	}
	s := r.spec(script)
	policy, err := sandbox.Encode(&sandbox.Policy{Argv: []string{"/bin/sh", "-c", script}, Dir: r.logs, PrivatePID: true,
		Env: []string{"PATH=/usr/bin:/bin"}, KeepCapabilities: true, KeepPrivileges: true, Seccomp: sandbox.SeccompNone})
	if err != nil {
		r.t.Fatal(err)
	}
	s.Policy, s.Init = policy, true
	s.Declared = []byte(`{"Canary":1}`)
	return s
}

func TestInitExit(t *testing.T) {
	r := newRig(t)
	c := r.client()
	for script, want := range map[string]proc.Exit{
		"true":                       {},
		"exit 42":                    {Code: 42},
		"exit 143":                   {Code: 143},
		"kill -TERM $$; sleep 100":   {Code: 143, Signal: 15},
		"kill -KILL $$; sleep 100":   {Code: 137, Signal: 9},
		"setsid sleep 1000 & exit 1": {Code: 1}, // the namespace ends with its program
	} {
		for _, group := range []string{"group", "no group"} {
			t.Run(script+" "+group, func(t *testing.T) {
				s := r.withInit(script)
				if group == "no group" {
					s.Group = nil
				}
				r.start(c, s)
				got := *r.wait(c, s.ID)
				got.At = time.Time{}
				if got != want {
					t.Errorf("exit = %+v, want %+v", got, want)
				}
			})
		}
	}
}

// TestInitSignals checks that a signal reaches the program and its group with its default action,
// as without init.
func TestInitSignals(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.withInit("sleep 1000 & echo $!; wait")
	task := r.start(c, s)
	testpace.Until(r.t, "the child", func() bool { return r.stdout(s) != "" })
	if task.Init == 0 || task.PID == task.Init {
		t.Errorf("task = %+v, want a program below an init", task)
	}
	if err := c.Signal(t.Context(), s.ID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(c, s.ID); exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("exit = %+v, want SIGTERM", exit)
	}
	for _, pid := range []int{task.Init, task.PID} {
		if alive(pid) {
			t.Errorf("process %d still exists", pid)
		}
	}
}

// TestInitOutlivesSupervisors checks that the exact exit is known after the supervisor was killed
// and replaced or upgraded, and even if the task ended without a supervisor.
func TestInitOutlivesSupervisors(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		want   proc.Exit
	}{
		"status": {"exit 137", proc.Exit{Code: 137}},
		"signal": {"kill -KILL $$; sleep 100", proc.Exit{Code: 137, Signal: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			gate := filepath.Join(r.logs, "gate")
			wait := "until [ -e " + gate + " ]; do sleep 0.005; done; " + tt.script
			crashed, upgraded, alone := r.withInit(wait), r.withInit(wait), r.withInit(wait)
			c := r.client()
			r.start(c, crashed)
			r.crash()
			if _, err := c.Task(t.Context(), crashed.ID); err != nil { // starts the next supervisor
				t.Fatal(err)
			}
			started := r.start(c, upgraded)
			if err := c.Upgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again, err := c.Task(t.Context(), upgraded.ID); err != nil || again.PID != started.PID || again.Init != started.Init {
				t.Errorf("Task() after the upgrade = %+v, %v, want %+v", again, err, started)
			}
			last := r.start(c, alone)
			c.Close()
			r.crash()
			if err := os.WriteFile(gate, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			testpace.Until(r.t, "the end", func() bool { return !alive(last.Init) })
			c = r.client()
			for name, s := range map[string]*proc.Spec{"crashed": crashed, "upgraded": upgraded, "alone": alone} {
				got := *r.wait(c, s.ID)
				got.At = time.Time{}
				if got != tt.want {
					t.Errorf("%s: exit = %+v, want %+v", name, got, tt.want)
				}
			}
		})
	}
}

// TestAdoptedInit checks that the next supervisor can signal and kill a task with init.
func TestAdoptedInit(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.withInit("trap 'echo got' USR1; echo up; while :; do sleep 0.005; done")
	task := r.start(c, s)
	testpace.Until(r.t, "the trap", func() bool { return r.stdout(s) == "up\n" })
	r.crash()
	if _, err := c.Task(t.Context(), s.ID); err != nil { // starts the next supervisor
		t.Fatal(err)
	}
	if err := c.Signal(t.Context(), s.ID, syscall.SIGUSR1); err != nil {
		t.Fatalf("Signal() = %v", err)
	}
	testpace.Until(r.t, "the signal", func() bool { return r.stdout(s) != "up\n" })
	exit, err := c.Kill(t.Context(), s.ID)
	if err != nil || exit.Signal != int(unix.SIGKILL) {
		t.Errorf("Kill() = %+v, %v, want SIGKILL", exit, err)
	}
	testpace.Until(r.t, "the end of init", func() bool { return !alive(task.Init) })
}

// TestCrashDuringStart kills the supervisor between the fork and the execve. No client was told
// that the task runs, so the next supervisor ends it, with or without a group.
func TestCrashDuringStart(t *testing.T) {
	for _, group := range []string{"group", "no group"} {
		t.Run(group, func(t *testing.T) { crashDuringStart(t, group == "group") })
	}
}

func crashDuringStart(t *testing.T, grouped bool) {
	r := newRig(t)
	c := r.client()
	first := r.withInit("sleep 1000")
	r.start(c, first)
	s := r.withInit("sleep 1000")
	if !grouped {
		s.Group = nil
	}
	failed, stage := r.hang(c, s)
	r.crash()
	if err := <-failed; err == nil {
		t.Error("Start() = nil, though its supervisor died before the execve")
	}
	if _, err := c.Task(t.Context(), s.ID); !errors.Is(err, proc.ErrUnknownTask) {
		t.Errorf("Task() = %v, want it to be unknown", err)
	}
	for _, pid := range stage {
		testpace.Until(r.t, "their end", func() bool { return !alive(pid) })
	}
	if task, err := c.Task(t.Context(), first.ID); err != nil || task.Exit != nil {
		t.Errorf("Task() of another = %+v, %v, want it running", task, err)
	}
}

// hang starts s so that its stage blocks. It returns the future answer, and the processes init and
// stage.
func (r *rig) hang(c *supervise.Client, s *proc.Spec) (<-chan error, []int) {
	r.t.Helper()
	hang := filepath.Join(r.dir, "hang"+strconv.Itoa(r.n)) // the stage waits for a reader
	if err := unix.Mkfifo(hang, 0o600); err != nil {
		r.t.Fatal(err)
	}
	s.Join = []string{hang}
	others := r.named("nomad-init")
	failed := make(chan error, 1)
	go func() {
		_, err := c.Start(r.t.Context(), s)
		failed <- err
	}()
	var stage []int
	testpace.Until(r.t, "the stage", func() bool {
		for _, pid := range r.named("nomad-init") {
			if below := childrenOf(r.t, pid); !slices.Contains(others, pid) && len(below) == 1 {
				stage = []int{pid, below[0]}
			}
		}
		return stage != nil
	})
	return failed, stage
}
