package exec_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestStop(t *testing.T) {
	f := newFixture(t, nil)
	for name, tc := range map[string]struct {
		script, signal string
		patience       time.Duration
		code, sig      int
	}{
		"default":  {"trap 'exit 3' INT; echo up; while :; do sleep 0.01; done", "", time.Minute, 3, 0},
		"named":    {"trap 'exit 4' USR1; echo up; while :; do sleep 0.01; done", "SIGUSR1", time.Minute, 4, 0},
		"unheeded": {"trap '' INT TERM; echo up; sleep 100 & wait; sleep 100", "", 50 * time.Millisecond, 137, 9},
		// A task that were process 1 of its namespace would ignore it.
		"without a handler": {"echo up; exec sleep 100", "SIGTERM", time.Minute, 143, 15},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.sh(tc.script)
			f.start(cfg, "up")
			if err := f.StopTask(t.Context(), cfg.ID, tc.patience, tc.signal); err != nil {
				t.Fatalf("StopTask() = %v", err)
			}
			if out := f.wait(cfg); out.ExitCode != tc.code || out.Signal != tc.sig {
				t.Errorf("exit = %+v, want code %d signal %d", *out.ExitResult, tc.code, tc.sig)
			}
			leftovers(t, cfg)
		})
	}
}

// leftovers checks that nothing of an ended task is on the host but its files.
func leftovers(t *testing.T, cfg *drivers.TaskConfig) {
	t.Helper()
	group := process.GroupName(cfg)
	if dirs := testtask.GroupDirs(t, group.Parent, group.Name); len(dirs) > 0 {
		t.Errorf("control groups are left: %v", dirs)
	}
	if text, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(text), cfg.TaskDir) {
		t.Errorf("mounts of the task are left, %v", err)
	}
}

func TestSignal(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.sh("trap 'echo got' USR2; echo up; while :; do sleep 0.01; done")
	f.start(cfg, "up")
	if err := f.SignalTask(cfg.ID, "SIGUSR2"); err != nil {
		t.Fatal(err)
	}
	f.await(cfg, "got")
	if err := f.SignalTask(cfg.ID, "SIGNONE"); err == nil {
		t.Error("SignalTask() of an unknown signal = nil")
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

func TestStats(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.sh("echo up; while :; do :; done")
	f.start(cfg, "up")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ch, err := f.TaskStats(ctx, cfg.ID, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for u := range ch {
		if u.CPUPercent > 0 && u.MemoryUsage > 0 {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("no sample shows a busy task")
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

func TestOutOfMemory(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.sh("exec tail /dev/zero")
	cfg.Limits.MemoryBytes = 24 << 20
	if got := f.run(cfg); !got.OOMKilled {
		t.Errorf("exit = %+v, want the OOM killer", got.ExitResult)
	}
}

// TestSessions checks that a session has the root, the user, the limits and the processes of the task.
func TestSessions(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task(block{"work_dir": "/local"}, "sh", "-c", "echo up; exec sleep 1000")
	f.start(cfg, "up")
	for _, tc := range []struct{ script, want string }{
		{"id -u; id -g; pwd", "65534\n65534\n/local\n"},
		{"grep CapEff /proc/self/status | cut -f2; grep Seccomp: /proc/self/status", "00000000a80405fb\nSeccomp:\t2\n"},
		{"tr '\\0' ' ' < /proc/2/cmdline; kill -0 2 && echo reached", "sleep 1000 reached\n"},
		{"[ -e " + cfg.TaskDir + " ] || echo gone", "gone\n"},
	} {
		if code, out := f.session(cfg.ID, "sh", "-c", tc.script); code != 0 && out == "" || out != tc.want {
			t.Errorf("%s: code %d, %q, want %q", tc.script, code, out, tc.want)
		}
	}
	group := process.GroupName(cfg)
	for _, dir := range testtask.GroupDirs(t, group.Parent, group.Name) {
		before := pids(t, dir)
		if _, out := f.session(cfg.ID, "sh", "-c", "sleep 0.3; echo end"); out != "end\n" || before == 0 {
			t.Errorf("the group %s has %d processes; the session wrote %q", dir, before, out)
		}
	}
	if code, _ := f.session(cfg.ID, "no-such-program"); code != 127 {
		t.Errorf("a missing program has the exit %d, want 127", code)
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

func pids(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	return len(strings.Fields(string(text)))
}

// TestRecover checks that a second agent takes over a running and an ended task, with sessions.
func TestRecover(t *testing.T) {
	f := newFixture(t, nil)
	ended, running := f.sh("echo early; exit 5"), f.sh("echo up; while [ ! -e /alloc/gate ]; do sleep 0.01; done; echo late; exit 6")
	first, second := f.start(ended, "early"), f.start(running, "up")
	f.super.Close()
	again := &fixture{t: t, dir: f.dir, super: supervise.NewClient(filepath.Join(f.dir, "supervise"), slog.New(slog.DiscardHandler))}
	t.Cleanup(func() { again.super.Close() })
	again.Driver = again.driver(again.super, nil)
	for _, h := range []*drivers.TaskHandle{first, second} {
		if err := again.RecoverTask(t.Context(), h); err != nil {
			t.Fatalf("RecoverTask() = %v", err)
		}
	}
	if out := again.wait(ended); out.ExitCode != 5 || out.stdout != "early\n" {
		t.Errorf("the ended task: %+v, %q", out.ExitResult, out.stdout)
	}
	if _, out := again.session(running.ID, "id", "-u"); out != "65534\n" {
		t.Errorf("a session after the recovery wrote %q", out)
	}
	if err := os.WriteFile(filepath.Join(running.SharedDir, "gate"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := again.wait(running); out.ExitCode != 6 || out.stdout != "up\nlate\n" {
		t.Errorf("the running task: %+v, %q", out.ExitResult, out.stdout)
	}
	if err := again.RecoverTask(t.Context(), first); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("RecoverTask() of a destroyed task = %v, want %v", err, drivers.ErrTaskNotFound)
	}
	leftovers(t, running)
}

// TestSupervisorCrash checks that a task outlives its supervisor, and that the next one ends it.
func TestSupervisorCrash(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.sh("echo up; i=0; while :; do sleep 0.05; i=$((i+1)); echo $i; done")
	h := f.start(cfg, "up")
	status, err := f.InspectTask(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(status.Attributes["pid"])
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(supervisorOf(t, pid), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := f.RecoverTask(t.Context(), h); err != nil {
		t.Fatalf("RecoverTask() = %v", err)
	}
	if _, out := f.session(cfg.ID, "id", "-u"); out != "65534\n" {
		t.Errorf("a session wrote %q", out)
	}
	if err := f.StopTask(t.Context(), cfg.ID, 0, ""); err != nil {
		t.Errorf("StopTask() = %v", err)
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Errorf("DestroyTask() = %v", err)
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("the task still runs: %v", err)
	}
	leftovers(t, cfg)
}

// supervisorOf returns the process that started the init of a task.
func supervisorOf(t *testing.T, pid int) int {
	t.Helper()
	for _, name := range []string{"nomad-init", "nomad-supervise"} {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "PPid:\t")
		line, _, _ := strings.Cut(rest, "\n")
		if pid, err = strconv.Atoi(line); err != nil {
			t.Fatal(err)
		}
		comm, err := os.ReadFile("/proc/" + line + "/comm")
		if err != nil || !strings.HasPrefix(name, strings.TrimSpace(string(comm))) {
			t.Fatalf("the parent is %q, %v, want %s", comm, err, name)
		}
	}
	return pid
}

// TestDisk checks what the root directories of 50 tasks cost.
func TestDisk(t *testing.T) {
	f := newFixture(t, nil)
	for range 50 {
		f.run(f.task(nil, "/bin/true"))
	}
	out, err := exec.CommandContext(t.Context(), "du", "-sk", f.dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	kb, err := strconv.Atoi(strings.Fields(string(out))[0])
	if err != nil || kb > 20<<10 {
		t.Errorf("50 tasks have %d KiB on disk, %v, want at most 20 MiB", kb, err)
	}
	t.Logf("50 tasks: %d KiB", kb)
}

// BenchmarkStart measures the start of a task, as that of exec2.
func BenchmarkStart(b *testing.B) {
	f := newFixture(b, nil)
	f.run(f.task(nil, "/bin/true"))
	for b.Loop() {
		b.StopTimer()
		cfg := f.task(nil, "/bin/sleep", "100")
		b.StartTimer()
		if _, err := f.StartTask(b.Context(), cfg); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := f.DestroyTask(cfg.ID, true); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
