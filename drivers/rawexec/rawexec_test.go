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

// newDriver returns an enabled driver with a supervisor of its own, ended with the test.
func newDriver(t *testing.T, attrs map[string]cty.Value) *rawexec.Driver {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	super := supervise.NewClient(filepath.Join(t.TempDir(), "supervise"), log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		super.Close()
	})
	d := rawexec.New(log, super)
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
