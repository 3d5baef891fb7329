package rawexec_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// newDriver returns an enabled driver with its own supervisor, ended with the test.
func newDriver(t *testing.T, attrs map[string]cty.Value) *rawexec.Driver {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	super := supervise.NewClient(filepath.Join(t.TempDir(), "supervise"), log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		super.Close()
	})
	d := rawexec.New(rawexec.Name, super)
	if attrs == nil {
		attrs = map[string]cty.Value{"enabled": cty.True}
	}
	if err := d.SetConfig(cty.ObjectVal(attrs)); err != nil {
		t.Fatal(err)
	}
	return d
}

// task returns the config of a task that runs a shell script.
func task(t *testing.T, script string) *drivers.TaskConfig {
	t.Helper()
	alloc := t.TempDir()
	cfg := &drivers.TaskConfig{
		ID: "11111111-2222-3333-4444-555555555555/" + t.Name() + "/00000001", AllocID: filepath.Base(filepath.Dir(alloc)) + filepath.Base(alloc),
		Name: "web", AllocDir: alloc, TaskDir: filepath.Join(alloc, "web"), SharedDir: filepath.Join(alloc, "alloc"),
		LocalDir: filepath.Join(alloc, "web/local"), SecretsDir: filepath.Join(alloc, "web/secrets"), LogDir: filepath.Join(alloc, "alloc/logs"),
		Log: drivers.LogConfig{MaxFiles: 3, MaxFileSizeMB: 1}, CgroupParent: "nomad-test.slice",
		Env: map[string]string{"PATH": "/usr/bin:/bin", "NOMAD_TASK_NAME": "web"},
		Config: cty.ObjectVal(map[string]cty.Value{"command": cty.StringVal("/bin/sh"),
			"args": cty.ListVal([]cty.Value{cty.StringVal("-c"), cty.StringVal(script)})}),
	}
	for _, d := range []string{cfg.LocalDir, cfg.SecretsDir, cfg.LogDir} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

func runTask(t *testing.T, d *rawexec.Driver, cfg *drivers.TaskConfig) (*drivers.ExitResult, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := d.StartTask(ctx, cfg); err != nil {
		t.Fatalf("StartTask() = %v", err)
	}
	res, err := d.WaitTask(ctx, cfg.ID)
	if err != nil {
		t.Fatalf("WaitTask() = %v", err)
	}
	return res, readLog(t, cfg, "stdout")
}

func readLog(t *testing.T, cfg *drivers.TaskConfig, stream string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(cfg.LogDir, cfg.Name+"."+stream+".0"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRun(t *testing.T) {
	d := newDriver(t, nil)
	res, out := runTask(t, d, task(t, `echo "hello $NOMAD_TASK_NAME"; pwd; exit 7`))
	if res.ExitCode != 7 || res.Signal != 0 {
		t.Errorf("exit = %+v, want code 7", res)
	}
	if !strings.HasPrefix(out, "hello web\n") || !strings.HasSuffix(out, "/web\n") {
		t.Errorf("stdout = %q, want the greeting and the task's directory", out)
	}
}

func TestTable(t *testing.T) {
	d := newDriver(t, map[string]cty.Value{"enabled": cty.True, "denied_envvars": cty.ListVal([]cty.Value{cty.StringVal("AWS_*")})})
	tests := []struct {
		name, script string
		edit         func(*drivers.TaskConfig, map[string]cty.Value)
		code         int
		stdout       string
	}{
		{"killed", "kill -9 $$", nil, 137, ""},
		{"environment", "echo [$AWS_KEY][$TOKEN][$KEEP]", func(c *drivers.TaskConfig, a map[string]cty.Value) {
			c.Env["AWS_KEY"], c.Env["TOKEN"], c.Env["KEEP"] = "x", "y", "z"
			a["denied_envvars"] = cty.ListVal([]cty.Value{cty.StringVal("TOKEN")})
		}, 0, "[][][z]\n"},
		{"work_dir", "pwd", func(_ *drivers.TaskConfig, a map[string]cty.Value) { a["work_dir"] = cty.StringVal("/") }, 0, "/\n"},
		{"relative command", "", func(c *drivers.TaskConfig, a map[string]cty.Value) {
			if err := os.WriteFile(filepath.Join(c.LocalDir, "tool"), []byte("#!/bin/sh\necho tool\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			a["command"] = cty.StringVal("tool")
			a["args"] = cty.ListValEmpty(cty.String)
		}, 0, "tool\n"},
		{"user", "id -u; grep CapEff /proc/self/status", func(c *drivers.TaskConfig, _ map[string]cty.Value) {
			if os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			openUp(t, c.AllocDir)
			c.User = "nobody"
		}, 0, "65534\nCapEff:\t0000000000000000\n"},
		{"oom score", "cat /proc/self/oom_score_adj", func(_ *drivers.TaskConfig, a map[string]cty.Value) {
			a["oom_score_adj"] = cty.NumberIntVal(500)
		}, 0, "500\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := task(t, tt.script)
			if tt.edit != nil {
				a := cfg.Config.AsValueMap()
				tt.edit(cfg, a)
				cfg.Config = cty.ObjectVal(a)
			}
			res, out := runTask(t, d, cfg)
			if res.ExitCode != tt.code || out != tt.stdout {
				t.Errorf("exit %+v, stdout %q, want %d and %q; stderr %q", res, out, tt.code, tt.stdout, readLog(t, cfg, "stderr"))
			}
		})
	}
}

// openUp lets every user traverse to a test's directory.
func openUp(t *testing.T, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name     string
		settings map[string]cty.Value
		edit     func(*drivers.TaskConfig, map[string]cty.Value)
		want     string
	}{
		{"disabled", map[string]cty.Value{}, nil, "disabled"},
		{"no program", nil, func(_ *drivers.TaskConfig, a map[string]cty.Value) { a["command"] = cty.StringVal("/no/such") }, "no such file"},
		{"denied uid", map[string]cty.Value{"enabled": cty.True, "denied_host_uids": cty.StringVal("1-10,0-65534")}, nil, "denied"},
		{"unknown user", nil, func(c *drivers.TaskConfig, _ map[string]cty.Value) { c.User = "no-such-user" }, "no-such-user"},
		{"override", nil, func(_ *drivers.TaskConfig, a map[string]cty.Value) {
			a["cgroup_v2_override"] = cty.StringVal("no/such/group")
		}, "override"},
		{"network namespace", nil, func(c *drivers.TaskConfig, _ map[string]cty.Value) { c.NetNS = "/x" }, "network namespace"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDriver(t, tt.settings)
			cfg := task(t, "true")
			if tt.edit != nil {
				a := cfg.Config.AsValueMap()
				tt.edit(cfg, a)
				cfg.Config = cty.ObjectVal(a)
			}
			if _, err := d.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("StartTask() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestFingerprint(t *testing.T) {
	for enabled, want := range map[bool]drivers.Health{true: drivers.HealthHealthy, false: drivers.HealthUndetected} {
		d := newDriver(t, map[string]cty.Value{"enabled": cty.BoolVal(enabled)})
		if got := <-d.Fingerprint(t.Context()); got.Health != want {
			t.Errorf("enabled %t: health %s, want %s", enabled, got.Health, want)
		}
	}
}

// TestWorkDirOfAUser checks that a directory of the job is entered with the rights of the task's
// user, who may have put a link there. The task's own directory needs no rights.
func TestWorkDirOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to run as another user")
	}
	locked := filepath.Join(t.TempDir(), "locked")
	if err := os.MkdirAll(filepath.Join(locked, "inner"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, nil)
	cfg := task(t, "true")
	cfg.User = "nobody"
	if err := os.Chmod(cfg.AllocDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if res, _ := runTask(t, d, cfg); res.ExitCode != 0 {
		t.Errorf("exit = %+v, want 0 in the task's own directory", res)
	}
	cfg = task(t, "true")
	cfg.ID += "2"
	cfg.User = "nobody"
	a := cfg.Config.AsValueMap()
	a["work_dir"] = cty.StringVal(filepath.Join(locked, "inner"))
	cfg.Config = cty.ObjectVal(a)
	if _, err := d.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("StartTask() = %v, want a refusal: nobody may not go there", err)
	}
}
