package exec2_test

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

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
	needsSandbox(t)
	return fixtureAt(t, s)
}

func needsSandbox(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: uids and control groups")
	}
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
}

func fixtureAt(t testing.TB, s settings) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: testtask.OpenDir(t)}
	f.super = testtask.Supervisor(t, f.dir)
	f.Driver = exec2.New(exec2.Config{Name: exec2.Name, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Supervisor: f.super})
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

func (f *fixture) run(cfg *drivers.TaskConfig) testtask.Outcome {
	f.t.Helper()
	return testtask.Run(f.t, f, cfg)
}

func (f *fixture) wait(cfg *drivers.TaskConfig) testtask.Outcome {
	f.t.Helper()
	return testtask.Wait(f.t, f, cfg)
}

// nextAgent returns the fixture of the next agent, with the same supervisor.
func (f *fixture) nextAgent() *fixture {
	f.t.Helper()
	next := &fixture{t: f.t, dir: f.dir, super: testtask.SecondClient(f.t, f.super)}
	next.Driver = exec2.New(exec2.Config{Name: exec2.Name, Log: slog.New(slog.NewTextHandler(f.t.Output(), nil)), Supervisor: next.super})
	return next
}

type unixStat = syscall.Stat_t
