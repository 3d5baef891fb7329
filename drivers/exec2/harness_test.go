package exec2_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	if len(os.Args) > 2 && os.Args[1] == "probe" {
		os.Exit(probe(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// fixture is a driver with its own supervisor, both ended with the test.
type fixture struct {
	*exec2.Driver
	t     testing.TB
	super *supervise.Client
	dir   string // parent of the allocation directories
	n     int
}

type settings map[string]cty.Value

// newFixture skips the test if the sandbox is incomplete; TestUnprivileged tests that case.
func newFixture(t testing.TB, s settings) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: uids and control groups")
	}
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	return fixtureAt(t, s)
}

func fixtureAt(t testing.TB, s settings) *fixture {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	dir := testtask.OpenDir(t)
	super := supervise.NewClient(filepath.Join(dir, "supervise"), log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		super.Close()
	})
	f := &fixture{Driver: exec2.New(exec2.Config{Name: exec2.Name, Log: log, Supervisor: super}), t: t, super: super, dir: dir}
	all := map[string]cty.Value{"unveil_by_task": cty.True}
	for k, v := range s {
		all[k] = v
	}
	if err := f.SetConfig(cty.ObjectVal(all)); err != nil {
		t.Fatal(err)
	}
	return f
}

// task returns the config of a task, with directories as the client makes them.
func (f *fixture) task(command string, args ...string) *drivers.TaskConfig {
	f.t.Helper()
	f.n++
	cfg := testtask.Config(f.t, f.dir, f.n)
	cfg.User = fmt.Sprintf("nomad-%d", 88000+f.n)
	cfg.Limits = drivers.LinuxResources{MemoryBytes: 256 << 20, CPUShares: 2000, MHzPerCore: 2000}
	cfg.Env = map[string]string{"NOMAD_TASK_DIR": cfg.LocalDir, "NOMAD_SECRETS_DIR": cfg.SecretsDir, "NOMAD_ALLOC_DIR": cfg.SharedDir}
	f.config(cfg, command, args)
	return cfg
}

func (f *fixture) config(cfg *drivers.TaskConfig, command string, args []string, unveil ...string) {
	cfg.Config = cty.ObjectVal(map[string]cty.Value{"command": cty.StringVal(command),
		"args": list(args), "unveil": list(unveil)})
}

// set adds options to a task's config block.
func (f *fixture) set(cfg *drivers.TaskConfig, options map[string]any) *drivers.TaskConfig {
	f.t.Helper()
	v, err := drivers.Decode(merged(cfg, options), f.TaskSpec())
	if err != nil {
		f.t.Fatal(err)
	}
	cfg.Config = v
	return cfg
}

func merged(cfg *drivers.TaskConfig, options map[string]any) map[string]any {
	have := drivers.Fields{Value: cfg.Config}
	all := map[string]any{"command": have.String("command")}
	for _, name := range []string{"args", "unveil"} {
		if l := have.Strings(name); l != nil {
			all[name] = l
		}
	}
	maps.Copy(all, options)
	return all
}

func list(s []string) cty.Value {
	if len(s) == 0 {
		return cty.ListValEmpty(cty.String)
	}
	out := make([]cty.Value, len(s))
	for i := range s {
		out[i] = cty.StringVal(s[i])
	}
	return cty.ListVal(out)
}

// probeTask runs this test binary in the sandbox; see probe_test.go.
func (f *fixture) probeTask(args ...string) *drivers.TaskConfig {
	f.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	// The build directory of `go test` is private to its user.
	bin := filepath.Join(f.dir, "probe")
	if _, err := os.Stat(bin); err != nil {
		copyFile(f.t, exe, bin)
	}
	cfg := f.task("")
	f.config(cfg, bin, append([]string{"probe"}, args...), "rx:"+bin, "r:/proc", "r:/sys/kernel/mm")
	return cfg
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}

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

// want checks the status and a part of stdout.
func (o outcome) want(t *testing.T, code int, stdout string) {
	t.Helper()
	if o.ExitCode != code || o.Err != nil {
		t.Errorf("exit = %+v, want code %d; stderr: %s", *o.ExitResult, code, o.stderr)
	}
	if !strings.Contains(o.stdout, stdout) {
		t.Errorf("stdout = %q, want it to hold %q; stderr: %s", o.stdout, stdout, o.stderr)
	}
}

// newAgent returns the driver of a second agent for the supervisor of dir.
func newAgent(t *testing.T, dir string) (*exec2.Driver, *supervise.Client) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	super := supervise.NewClient(filepath.Join(dir, "supervise"), log)
	t.Cleanup(func() { super.Close() })
	return exec2.New(exec2.Config{Name: exec2.Name, Log: log, Supervisor: super}), super
}

type unixStat = syscall.Stat_t
