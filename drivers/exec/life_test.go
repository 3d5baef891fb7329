package exec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

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

// TestDisk checks what the root directories of 50 tasks cost.
func TestDisk(t *testing.T) {
	testpace.Slow(t, "runs 50 tasks")
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
