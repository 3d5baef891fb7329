package exec2_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/testaudit"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// sidecar returns a sidecar that runs a shell script.
func (f *fixture) sidecar(cfg *drivers.TaskConfig, script string) *drivers.Sidecar {
	f.t.Helper()
	return testtask.Shell(f.t, cfg, script)
}

// confine runs a sidecar and returns its exit and output.
func (f *fixture) confine(cfg *drivers.TaskConfig, s *drivers.Sidecar) (*drivers.ExitResult, string) {
	f.t.Helper()
	out, err := os.CreateTemp(f.t.TempDir(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	s.Stdio[1], s.Stdio[2] = out, out
	exit, err := f.Confine(f.t.Context(), cfg, s)
	if err != nil {
		f.t.Fatalf("Confine() = %v", err)
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		f.t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		f.t.Fatal(err)
	}
	return exit, string(text)
}

// A sidecar has the user and the sandbox of its task, but only its own paths.
func TestConfine(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("/bin/sleep", "600")
	script := `grep -E '^0:|:(memory|pids):' /proc/self/cgroup | grep -vc "$GROUP"; id -u; grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; echo x > f; cat f; cat ../../alloc/f || echo denied; exit 3`
	const shared = "/f"
	if err := os.WriteFile(cfg.SharedDir+shared, []byte("shared\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before", "during"} {
		s := f.sidecar(cfg, script)
		s.Env["GROUP"] = process.GroupName(cfg).Name
		exit, out := f.confine(cfg, s)
		want := "0\n" + strings.TrimPrefix(cfg.User, "nomad-") + "\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nx\n"
		if exit.ExitCode != 3 || !strings.HasPrefix(out, want) || !strings.Contains(out, "denied\n") || strings.Contains(out, "shared\n") {
			t.Errorf("%s the task's run: exit %+v, output %q, want %q and a denied path", when, exit, out, want)
		}
		if when == "before" {
			if _, err := f.StartTask(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

// groupDirs returns the existing directories of the task's control group.
func groupDirs(t testing.TB, cfg *drivers.TaskConfig) []string {
	t.Helper()
	name := process.GroupName(cfg)
	return testtask.GroupDirs(t, name.Parent, name.Name)
}

// sleeper is a sidecar that runs until end, and its exit.
type sleeper struct {
	exit chan *drivers.ExitResult
	end  context.CancelFunc
}

// begin runs a sidecar that prints a line, and returns when it has.
func (f *fixture) begin(cfg *drivers.TaskConfig, s *drivers.Sidecar) *sleeper {
	f.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Close()
	s.Stdio[1] = w
	ctx, cancel := context.WithCancel(f.t.Context())
	l := &sleeper{make(chan *drivers.ExitResult, 1), cancel}
	go func() {
		exit, err := f.Confine(ctx, cfg, s)
		w.Close()
		if err != nil {
			f.t.Errorf("Confine() = %v", err)
		}
		l.exit <- exit
	}()
	if _, err := r.Read(make([]byte, 1)); err != nil {
		f.t.Fatalf("the sidecar has not printed a line: %v", err)
	}
	return l
}

// big returns a sidecar that uses so much memory until it is ended. Its shell does not replace itself
// with the last command, as busybox's would.
func (f *fixture) big(cfg *drivers.TaskConfig, mb int) *drivers.Sidecar {
	s := f.sidecar(cfg, fmt.Sprintf("x=$(head -c %d000000 /dev/zero | tr '\\0' x); echo up; sleep 1000; true", mb))
	s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "r", Name: "/dev/zero"})
	return s
}

// The task's limits hold after those of a sidecar before its start.
func TestConfineBeforeStart(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("/bin/sleep", "600")
	cfg.Limits.MemoryBytes = 20 << 20
	for _, memory := range []int64{20 << 20, 256 << 20} {
		cfg.Limits.MemoryBytes = memory
		l := f.begin(cfg, f.sidecar(cfg, "echo up; sleep 1000"))
		dirs := groupDirs(t, cfg)
		asDeclared(t, f, cfg) // ends the task, and with it the sidecar
		if exit := <-l.exit; exit == nil || exit.Signal != 9 || exit.OOMKilled {
			t.Errorf("the sidecar: %+v, want the SIGKILL of the task's end", exit)
		}
		l.end()
		if got := groupDirs(t, cfg); len(dirs) == 0 || len(got) > 0 {
			t.Errorf("the group's directories were %q, are %q", dirs, got)
		}
		if err := f.DestroyTask(cfg.ID, true); err != nil {
			t.Error(err)
		}
	}
}

// A sidecar may use more memory than the task may: in version 1 the start is refused, in version 2 the
// kernel ends the sidecar.
func TestConfineAboveTheLimit(t *testing.T) {
	testpace.Slow(t, "waits while the kernel reclaims memory")
	f := newFixture(t, nil)
	cfg := f.task("/bin/sleep", "600")
	cfg.Limits.MemoryBytes = 16 << 20
	l := f.begin(cfg, f.big(cfg, 20))
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.StartTask(t.Context(), cfg)
	if h.V1["memory"] == "" {
		if err != nil {
			t.Fatal(err)
		}
		if exit := <-l.exit; !exit.OOMKilled {
			t.Errorf("the sidecar: %+v, want the OOM killer", exit)
		}
		if err := f.DestroyTask(cfg.ID, true); err != nil {
			t.Error(err)
		}
	} else {
		if err == nil || !strings.Contains(err.Error(), "the processes in the group use ") {
			t.Errorf("StartTask() = %v, want a refusal with the usage", err)
		}
		l.end()
		<-l.exit
	}
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group still exists: %q", dirs)
	}
}

// A start that fails leaves no group, whether or not sidecars are in it.
func TestConfineAndFailedStart(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("/bin/sleep", "600")
	cfg.NetNS = "/run/netns/none"
	broken := *cfg
	cfg.NetNS = ""
	f.confine(cfg, f.sidecar(cfg, "true"))
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group of a sidecar that has ended still exists: %q", dirs)
	}
	if _, err := f.StartTask(t.Context(), &broken); err == nil {
		t.Fatal("StartTask() = nil")
	}
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group still exists: %q", dirs)
	}
	l := f.begin(cfg, f.sidecar(cfg, "echo up; sleep 1000"))
	if _, err := f.StartTask(t.Context(), &broken); err == nil {
		t.Fatal("StartTask() = nil")
	}
	l.end()
	<-l.exit
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group still exists: %q", dirs)
	}
}

// The OOM killer prefers a sidecar to its task, whose result is then not affected.
func TestConfineOutOfMemory(t *testing.T) {
	testpace.Slow(t, "waits while the kernel reclaims memory")
	f := newFixture(t, nil)
	for _, tt := range []struct {
		name, script string
		want         bool
	}{
		{"sidecar", "sleep 1000", false},
		{"sidecar and task", "while [ ! -e local/go ]; do sleep 0.05; done; exec dd if=/dev/zero of=/dev/null count=1 bs=400M", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := f.task("")
			f.config(cfg, "/bin/sh", []string{"-c", tt.script})
			cfg.Limits.MemoryBytes = 64 << 20
			if _, err := f.StartTask(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			s := f.sidecar(cfg, "exec dd if=/dev/zero of=/dev/null count=1 bs=100M")
			s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "r", Name: "/dev/zero"})
			if exit, _ := f.confine(cfg, s); !exit.OOMKilled || exit.Signal != 9 {
				t.Errorf("the sidecar: %+v, want the OOM killer", exit)
			}
			if !tt.want {
				if err := f.StopTask(t.Context(), cfg.ID, 0, ""); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(filepath.Join(cfg.LocalDir, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if out := f.wait(cfg); out.OOMKilled != tt.want {
				t.Errorf("the task: %+v, want OOMKilled %t", *out.ExitResult, tt.want)
			}
		})
	}
}

// Denials of a sidecar are not reported as those of its task.
func TestConfineReportsNoDenials(t *testing.T) {
	testaudit.Need(t, denials.Audit)
	f := newFixture(t, settings{"explain_denials": cty.StringVal("audit")})
	h := f.report()
	cfg := f.task("/bin/sh", "-c", "trap 'cat /etc/passwd' USR1; while :; do sleep 0.01; done")
	if _, err := f.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, out := f.confine(cfg, f.sidecar(cfg, "cat /etc/hostname; unshare -U true; echo end")); !strings.Contains(out,
		"/etc/hostname: Permission denied") ||
		!strings.Contains(out, "unshare failed") {
		t.Errorf("the sidecar printed %q, want two refusals", out)
	}
	e := h.wait(t, cfg.ID, func() error { return f.SignalTask(cfg.ID, "SIGUSR1") })
	if !strings.Contains(e.Message, "/etc/passwd") || strings.Contains(e.Message, "hostname") || strings.Contains(e.Message, "unshare") {
		t.Errorf("reported %q, want the task's denial alone", e.Message)
	}
	if err := f.StopTask(t.Context(), cfg.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
}

// Sidecars and starts and ends of their task at the same time: no start fails, no sidecar fails other
// than by the task's end, and no group remains.
func TestConfineWhileTasksStartAndEnd(t *testing.T) {
	testpace.Slow(t, "starts many tasks")
	f := newFixture(t, nil)
	cfg := f.task("/bin/sleep", "0.02")
	var ended int
	for round := range 100 {
		again := *cfg
		again.ID = fmt.Sprintf("%s%03d", cfg.ID, round)
		var all sync.WaitGroup
		exits := make(chan *drivers.ExitResult, 3)
		for _, delay := range []string{"0", "0.01", "0.03"} {
			s := f.sidecar(cfg, "sleep "+delay+"; exit 7")
			all.Go(func() {
				exit, err := f.Confine(t.Context(), cfg, s)
				if err != nil {
					t.Errorf("round %d: Confine() = %v", round, err)
					exit = nil
				}
				exits <- exit
			})
		}
		if out := f.run(&again); out.ExitCode != 0 || out.Err != nil || out.OOMKilled {
			t.Errorf("round %d: the task: %+v", round, *out.ExitResult)
		}
		all.Wait()
		close(exits)
		for exit := range exits {
			if exit != nil && exit.Signal == 9 {
				ended++
			} else if exit != nil && exit.ExitCode != 7 {
				t.Errorf("round %d: a sidecar: %+v", round, *exit)
			}
			if exit != nil && exit.OOMKilled {
				t.Errorf("round %d: OOMKilled without a reason", round)
			}
		}
		if dirs := groupDirs(t, cfg); len(dirs) > 0 {
			t.Fatalf("round %d: the group still exists: %q", round, dirs)
		}
	}
	t.Logf("%d of 300 sidecars were ended with their task", ended)
}
