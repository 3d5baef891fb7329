package exec_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/drivers/exec"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

type block = map[string]any

// fixture is a driver with its own supervisor, both ended with the test.
type fixture struct {
	*chroot.Driver
	t     testing.TB
	super *supervise.Client
	dir   string // parent of the allocation directories
	n     int
}

// newFixture returns a driver with a plugin block.
func newFixture(t testing.TB, plugin block) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces and control groups")
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	f := &fixture{t: t, dir: testtask.OpenDir(t)}
	f.super = supervise.NewClient(filepath.Join(f.dir, "supervise"), log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := f.super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		f.super.Close()
	})
	f.Driver = f.driver(f.super, plugin)
	return f
}

// driver returns another driver, as of a second agent.
func (f *fixture) driver(super *supervise.Client, plugin block) *chroot.Driver {
	f.t.Helper()
	return f.configured(chroot.Config{Supervisor: super}, plugin)
}

// configured returns a driver with a configuration.
func (f *fixture) configured(cfg chroot.Config, plugin block) *chroot.Driver {
	f.t.Helper()
	if cfg.Name = exec.Name; cfg.Supervisor == nil {
		cfg.Supervisor = f.super
	}
	d := exec.New(cfg)
	v, err := drivers.Decode(plugin, d.ConfigSpec())
	if err == nil {
		err = d.SetConfig(v)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// task returns the config of a task, with directories as the client makes them.
func (f *fixture) task(options block, command string, args ...string) *drivers.TaskConfig {
	f.t.Helper()
	f.n++
	cfg := testtask.Config(f.t, f.dir, f.n)
	cfg.User = chroot.DefaultUser
	cfg.Limits = drivers.LinuxResources{MemoryBytes: 256 << 20, CPUShares: 500, MHzPerCore: 2000}
	cfg.Env = map[string]string{"NOMAD_TASK_DIR": "/local"}
	nobody, err := hostuser.Lookup(chroot.DefaultUser)
	if err != nil {
		f.t.Fatal(err)
	}
	testtask.MakeDir(f.t, filepath.Join(cfg.TaskDir, "tmp"))
	for dir, mode := range map[string]os.FileMode{cfg.TaskDir: 0o777 | os.ModeSticky, cfg.SecretsDir: 0o700} {
		if err := os.Chmod(dir, mode); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, dir := range []string{cfg.SecretsDir, cfg.LocalDir} {
		if err := os.Chown(dir, int(nobody.UID), int(nobody.GID)); err != nil {
			f.t.Fatal(err)
		}
	}
	all := block{"command": command, "args": args}
	maps.Copy(all, options)
	if cfg.Config, err = drivers.Decode(all, f.TaskSpec()); err != nil {
		f.t.Fatal(err)
	}
	return cfg
}

func (f *fixture) sh(script string) *drivers.TaskConfig { return f.task(nil, "/bin/sh", "-c", script) }

// outcome is a task's exit and output.
type outcome struct {
	*drivers.ExitResult
	stdout, stderr string
}

func (f *fixture) run(cfg *drivers.TaskConfig) outcome {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := f.StartTask(ctx, cfg); err != nil {
		f.t.Fatalf("StartTask() = %v", err)
	}
	return f.wait(cfg)
}

func (f *fixture) wait(cfg *drivers.TaskConfig) outcome {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	res, err := f.WaitTask(ctx, cfg.ID)
	if err != nil {
		f.t.Fatalf("WaitTask() = %v", err)
	}
	if err := f.DestroyTask(cfg.ID, false); err != nil {
		f.t.Errorf("DestroyTask() = %v", err)
	}
	return outcome{res, testtask.Output(f.t, cfg, "stdout"), testtask.Output(f.t, cfg, "stderr")}
}

// start starts a task and waits for a line of its output.
func (f *fixture) start(cfg *drivers.TaskConfig, line string) *drivers.TaskHandle {
	f.t.Helper()
	h, err := f.StartTask(f.t.Context(), cfg)
	if err != nil {
		f.t.Fatalf("StartTask() = %v", err)
	}
	f.await(cfg, line)
	return h
}

func (f *fixture) await(cfg *drivers.TaskConfig, line string) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(testtask.Output(f.t, cfg, "stdout"), line); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("the task did not write %q; stdout: %s stderr: %s", line, testtask.Output(f.t, cfg, "stdout"), testtask.Output(f.t, cfg, "stderr"))
		}
	}
}

// session runs a program next to a task.
func (f *fixture) session(id string, argv ...string) (code int, out string) {
	f.t.Helper()
	var b bytes.Buffer
	exit, err := f.ExecTask(f.t.Context(), id, &drivers.ExecOptions{Command: argv, Env: map[string]string{"PATH": "/usr/bin:/bin"},
		Stdin: strings.NewReader(""), Stdout: &b, Stderr: &b})
	if err != nil {
		f.t.Fatalf("ExecTask() = %v", err)
	}
	return exit.ExitCode, b.String()
}
