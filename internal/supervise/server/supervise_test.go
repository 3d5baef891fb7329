package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

func TestExit(t *testing.T) {
	r := newRig(t)
	c := r.client()
	tests := []struct {
		script string
		want   proc.Exit
		stdout string
	}{
		{"echo hello", proc.Exit{}, "hello\n"},
		{"exit 42", proc.Exit{Code: 42}, ""},
		{"kill -TERM $$", proc.Exit{Code: 143, Signal: 15}, ""},
		{"sleep 1000 & echo parent", proc.Exit{}, "parent\n"}, // remaining processes are killed
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			s := r.spec(tt.script)
			r.start(c, s)
			got := *r.wait(c, s.ID)
			if got.At.IsZero() {
				t.Error("exit has no time")
			}
			got.At = time.Time{}
			if got != tt.want {
				t.Errorf("exit = %+v, want %+v", got, tt.want)
			}
			if out := r.stdout(s); out != tt.stdout {
				t.Errorf("stdout = %q, want %q", out, tt.stdout)
			}
			if err := c.Forget(t.Context(), s.ID); err != nil {
				t.Errorf("Forget() = %v", err)
			}
			if _, err := c.Task(t.Context(), s.ID); !errors.Is(err, proc.ErrUnknownTask) {
				t.Errorf("Task() = %v, want %v", err, proc.ErrUnknownTask)
			}
		})
	}
	left, err := os.ReadDir(filepath.Join(r.dir, "tasks"))
	if err != nil || len(left) > 0 {
		t.Errorf("records left behind: %v %v", left, err)
	}
}

func TestStartError(t *testing.T) {
	r := newRig(t)
	c := r.client()
	refused := r.spec("true")
	refused.Policy = []byte("{}")
	_, err := c.Start(t.Context(), refused)
	if se, ok := errors.AsType[*proc.StartError](err); !ok || !strings.Contains(se.Reason, "unknown header") {
		t.Errorf("Start() = %v, want the stage's reason", err)
	}
	s := r.spec("sleep 100")
	r.start(c, s)
	if _, err := c.Start(t.Context(), s); err == nil {
		t.Error("Start() twice = nil, want an error")
	}
	if err := c.Forget(t.Context(), s.ID); err == nil {
		t.Error("Forget() of a running task = nil, want an error")
	}
	if exit, err := c.Kill(t.Context(), s.ID); err != nil || exit.Signal != int(unix.SIGKILL) {
		t.Errorf("Kill() = %+v, %v, want death by SIGKILL", exit, err)
	}
}

// TestAgentGone has the agent end while tasks write and end: the next one finds every byte and
// every exit.
func TestAgentGone(t *testing.T) {
	r := newRig(t)
	first := r.client()
	gate := filepath.Join(r.logs, "gate")
	early := r.spec("echo one; exit 3")
	late := r.spec("echo one; until [ -e " + gate + " ]; do sleep 0.005; done; seq 20000; exit 4")
	r.start(first, early)
	task := r.start(first, late)
	first.Close()
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	second := r.client()
	if again, err := second.Task(t.Context(), late.ID); err != nil || again.PID != task.PID {
		t.Fatalf("Task() = %+v, %v, want pid %d", again, err, task.PID)
	}
	if exit := r.wait(second, early.ID); exit.Code != 3 {
		t.Errorf("early exit = %+v, want 3", exit)
	}
	if exit := r.wait(second, late.ID); exit.Code != 4 {
		t.Errorf("late exit = %+v, want 4", exit)
	}
	if got, want := r.stdout(late), "one\n"+sequence(20000); got != want {
		t.Errorf("stdout has %d bytes, want %d", len(got), len(want))
	}
}

func sequence(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// TestSupervisorKilled kills the supervisor while a task writes.
func TestSupervisorKilled(t *testing.T) {
	r := newRig(t)
	c := r.client()
	gate := filepath.Join(r.logs, "gate")
	s := r.spec("i=0; until [ -e " + gate + " ]; do i=$((i+1)); echo $i; done; echo end $i; exit 9")
	s.Logs.MaxFiles = 1000 // none is removed
	task := r.start(c, s)
	done := r.spec("exit 5")
	r.start(c, done)
	r.wait(c, done.ID)
	var waited proc.Exit
	var wg sync.WaitGroup
	wg.Go(func() { waited = *r.wait(c, s.ID) }) // continues with the next supervisors
	for range 3 {
		before := len(r.stdout(s))
		r.crash()
		if !alive(task.PID) {
			t.Fatal("the task died with its supervisor")
		}
		if again, err := c.Task(t.Context(), s.ID); err != nil || again.PID != task.PID || again.Exit != nil {
			t.Fatalf("Task() after the crash = %+v, %v, want it running as pid %d", again, err, task.PID)
		}
		testpace.Until(r.t, "more output", func() bool { return len(r.stdout(s)) > before })
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if waited.Code != 9 && waited.Unknown == "" {
		t.Errorf("exit = %+v, want 9, or a reason why it is unknown", waited)
	}
	if waited.Unknown != "" {
		t.Logf("exit: %s", waited.Unknown)
	}
	out := r.stdout(s)
	lines := strings.Count(out, "\n")
	if want := sequence(lines-1) + fmt.Sprintf("end %d\n", lines-1); out != want {
		t.Errorf("stdout of %d lines has gaps", lines)
	}
	if exit := r.wait(c, done.ID); exit.Code != 5 {
		t.Errorf("exit from before the crashes = %+v, want 5", exit)
	}
}

// TestDeclared checks that Task returns the starter's data, also after an upgrade and from the next
// supervisor. The list of all tasks omits it.
func TestDeclared(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.spec("sleep 1000")
	s.Declared = []byte(`{"Canary":1}`)
	r.start(c, s)
	for _, when := range []string{"start", "upgrade", "crash"} {
		switch when {
		case "upgrade":
			r.upgrade(c)
		case "crash":
			r.crash()
		}
		if task, err := c.Task(t.Context(), s.ID); err != nil || string(task.Declared) != string(s.Declared) {
			t.Errorf("Task() after the %s = %+v, %v, want the declared data", when, task, err)
		}
		if all, err := c.Tasks(t.Context()); err != nil || len(all) != 1 || all[0].ID != s.ID || all[0].Declared != nil {
			t.Errorf("Tasks() after the %s = %+v, %v, want one without", when, all, err)
		}
	}
	if err := c.Forget(t.Context(), s.ID); !errors.Is(err, proc.ErrRunning) {
		t.Errorf("Forget() = %v, want %v", err, proc.ErrRunning)
	}
}

// TestEndedWhileAlone has a task end without a supervisor: its end is known, its exit status is
// not.
func TestEndedWhileAlone(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.spec("sleep 1000")
	task := r.start(c, s)
	c.Close()
	r.crash()
	if err := unix.Kill(task.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testpace.Until(r.t, "the task's end", func() bool { return !alive(task.PID) })
	exit := r.wait(r.client(), s.ID)
	if exit.Code != -1 || exit.Unknown == "" {
		t.Errorf("exit = %+v, want -1 and a reason", exit)
	}
}

// TestUpgrade upgrades the supervisor in place: same process, same tasks, and exits are still
// known.
func TestUpgrade(t *testing.T) {
	r := newRig(t)
	c := r.client()
	gate := filepath.Join(r.logs, "gate")
	s := r.spec("i=0; until [ -e " + gate + " ]; do i=$((i+1)); echo $i; done; exit 9")
	s.Logs.MaxFiles = 1000 // as above
	task := r.start(c, s)
	pid := r.supervisor()
	for range 3 {
		if err := c.Upgrade(t.Context()); err != nil {
			t.Fatalf("Upgrade() = %v", err)
		}
		if again, err := c.Task(t.Context(), s.ID); err != nil || again.PID != task.PID {
			t.Fatalf("Task() = %+v, %v, want pid %d", again, err, task.PID)
		}
	}
	if got := r.supervisor(); got != pid {
		t.Errorf("supervisor is process %d, want %d", got, pid)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(c, s.ID); exit.Code != 9 || exit.Unknown != "" {
		t.Errorf("exit = %+v, want 9", exit)
	}
	out := r.stdout(s)
	if out != sequence(strings.Count(out, "\n")) {
		t.Error("stdout has gaps")
	}
}

func TestParallelStarts(t *testing.T) {
	r := newRig(t)
	c := r.client()
	const n = 50
	specs := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		s := r.spec(fmt.Sprintf("echo %d; exit %d", i, i))
		specs[i] = s.ID
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			if _, err := c.Start(ctx, s); err != nil {
				t.Errorf("Start() = %v", err)
			}
		})
	}
	wg.Wait()
	for i, id := range specs {
		if exit := r.wait(c, id); exit.Code != i {
			t.Errorf("task %d: exit = %+v", i, exit)
		}
	}
	tasks, err := c.Tasks(t.Context())
	if err != nil || len(tasks) != n {
		t.Errorf("Tasks() = %d tasks, %v, want %d", len(tasks), err, n)
	}
}

// TestSocketIsPrivate checks that other users can neither find nor use the socket.
func TestSocketIsPrivate(t *testing.T) {
	r := newRig(t)
	r.start(r.client(), r.spec("true"))
	for name, want := range map[string]os.FileMode{"": 0o700 | os.ModeDir, "sock": 0o600 | os.ModeSocket, "tasks": 0o700 | os.ModeDir,
		"log": 0o600, "secret": 0o600} {
		st, err := os.Stat(filepath.Join(r.dir, name))
		if err != nil || st.Mode() != want {
			t.Errorf("%q: mode %v, %v, want %v", name, st.Mode(), err, want)
		}
	}
}

// TestOneSupervisor starts two agents at once on a fresh directory.
func TestOneSupervisor(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	for range 4 {
		c := r.client()
		s := r.spec("sleep 100")
		wg.Go(func() { r.start(c, s) })
	}
	wg.Wait()
	if tasks, err := r.client().Tasks(t.Context()); err != nil || len(tasks) != 4 {
		t.Errorf("Tasks() = %d, %v, want all 4 in one supervisor", len(tasks), err)
	}
}

// TestEndsWhenIdle checks that a supervisor ends after the last client has left and the last task
// has ended.
func TestEndsWhenIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	r.start(c, r.spec("exec sleep 2.1")) // longer than a supervisor stays without clients
	fd, err := unix.PidfdOpen(r.supervisor(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if !r.ended(fd, 2*time.Minute) {
		t.Error("the supervisor runs without clients and tasks")
	}
}

// TestLeave checks that Leave ends a supervisor without tasks and other clients, and no other.
func TestLeave(t *testing.T) {
	r := newRig(t)
	first, second := r.client(), r.client()
	s := r.spec("exec sleep 100")
	r.start(first, s)
	fd, err := unix.PidfdOpen(r.supervisor(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	leave := func(c *supervise.Client) (ended bool) {
		t.Helper()
		if err := c.CloseAndStopIdle(t.Context()); err != nil {
			t.Fatalf("Leave() = %v", err)
		}
		return r.ended(fd, 0)
	}
	if leave(first) {
		t.Fatal("the supervisor has ended while a task runs")
	}
	if _, err := second.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	last := r.client()
	if _, err := last.Task(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if leave(second) {
		t.Fatal("the supervisor has ended while another client is connected")
	}
	for began := time.Now(); !leave(last); { // it may not have noticed yet that the others have left
		if last = r.client(); time.Since(began) > time.Minute {
			t.Fatal("the supervisor runs after the last client has left, without a task")
		}
		if _, err := last.Task(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if exit := r.wait(r.client(), s.ID); exit.Signal != int(unix.SIGKILL) {
		t.Errorf("the next client gets %+v, want the end by SIGKILL", exit)
	}
}

func BenchmarkStart(b *testing.B) {
	r := newRig(b)
	c := r.client()
	r.wait(c, func() string { s := r.spec("true"); r.start(c, s); return s.ID }())
	var ids []string
	b.ResetTimer()
	for b.Loop() {
		s := r.spec("exec sleep 100")
		r.start(c, s)
		b.StopTimer()
		ids = append(ids, s.ID)
		if _, err := c.Kill(context.Background(), s.ID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.StopTimer()
	for _, id := range ids {
		if err := c.Forget(context.Background(), id); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMemoryPerTask checks that the supervisor uses at most 0.25 MiB for each task, and has no
// child process but the tasks.
func TestMemoryPerTask(t *testing.T) {
	if raced {
		t.Skip("the race detector multiplies memory")
	}
	r := newRig(t)
	c := r.client()
	r.start(c, r.spec("exec sleep 1000"))
	pid := r.supervisor()
	before := pss(t, pid)
	const n = 60
	for range n {
		r.start(c, r.spec("exec sleep 1000"))
	}
	perTask := float64(pss(t, pid)-before) / n
	t.Logf("supervisor: %d KiB with one task, %.0f KiB for each further one", before, perTask)
	if perTask > 256 {
		t.Errorf("%.0f KiB a task, want at most 256", perTask)
	}
	const want = n + 1
	if all := len(childrenOf(t, pid)); all != want {
		t.Errorf("the supervisor has %d children, want one a task: %d", all, want)
	}
}

// pss returns a process's proportional share of memory, in KiB.
func pss(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var kib int
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Fatal("no Pss")
	return 0
}
