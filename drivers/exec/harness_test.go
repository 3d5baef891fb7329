package exec_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

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
	needsRoot(t)
	f := &fixture{t: t, dir: testtask.OpenDir(t)}
	f.super = testtask.Supervisor(t, f.dir)
	f.Driver = f.configured(chroot.Config{}, plugin)
	return f
}

func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces and control groups")
	}
}

// configured returns a driver with a configuration.
func (f *fixture) configured(cfg chroot.Config, plugin block) *chroot.Driver {
	f.t.Helper()
	if cfg.Name = exec.Name; cfg.Supervisor == nil {
		cfg.Supervisor = f.super
	}
	return configured(f.t, cfg, plugin)
}

func configured(t testing.TB, cfg chroot.Config, plugin block) *chroot.Driver {
	t.Helper()
	d := exec.New(cfg)
	v, err := drivers.Decode(plugin, d.ConfigSpec())
	if err == nil {
		err = d.SetConfig(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// task returns the config of a task, with directories as the client makes them.
func (f *fixture) task(options block, command string, args ...string) *drivers.TaskConfig {
	f.t.Helper()
	f.n++
	cfg := testtask.Config(f.t, f.dir, f.n)
	cfg.Limits = drivers.LinuxResources{MemoryBytes: 256 << 20, CPUShares: 500, MHzPerCore: 2000}
	cfg.Env = map[string]string{"NOMAD_TASK_DIR": "/local"}
	prepare(f.t, cfg)
	all := block{"command": command, "args": args}
	maps.Copy(all, options)
	cfg.Config = decoded(f.t, all)
	return cfg
}

// decoded returns the config block of a task.
func decoded(t testing.TB, options block) cty.Value {
	t.Helper()
	v, err := drivers.Decode(options, exec.Kind().TaskSpec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// prepare makes the directories of a task as the client does, for the default user.
func prepare(t testing.TB, cfg *drivers.TaskConfig) {
	t.Helper()
	cfg.User = chroot.DefaultUser
	nobody, err := hostuser.Lookup(chroot.DefaultUser)
	if err != nil {
		t.Fatal(err)
	}
	testtask.MakeDir(t, filepath.Join(cfg.TaskDir, "tmp"))
	for dir, mode := range map[string]os.FileMode{cfg.TaskDir: 0o777 | os.ModeSticky, cfg.SecretsDir: 0o700} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{cfg.SecretsDir, cfg.LocalDir} {
		if err := os.Chown(dir, int(nobody.UID), int(nobody.GID)); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fixture) sh(script string) *drivers.TaskConfig { return f.task(nil, "/bin/sh", "-c", script) }

func (f *fixture) run(cfg *drivers.TaskConfig) testtask.Outcome {
	f.t.Helper()
	return testtask.Run(f.t, f, cfg)
}

// start starts a task and waits for a line of its output.
func (f *fixture) start(cfg *drivers.TaskConfig, line string) *drivers.TaskHandle {
	f.t.Helper()
	return testtask.Start(f.t, f, cfg, line)
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
