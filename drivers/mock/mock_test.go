package mock_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

type attrs map[string]cty.Value

func config(a attrs) *drivers.TaskConfig {
	return &drivers.TaskConfig{ID: "alloc/web/00000001", Name: "web", Config: cty.ObjectVal(a), Log: drivers.LogConfig{Disabled: true}}
}

func driver() *mock.Driver { return mock.New(mock.Name, slog.New(slog.DiscardHandler)) }

func str(s string) cty.Value { return cty.StringVal(s) }

func TestExit(t *testing.T) {
	tests := []struct {
		name  string
		attrs attrs
		want  drivers.ExitResult
		after time.Duration
	}{
		{"at once", attrs{"run_for": cty.NullVal(cty.String)}, drivers.ExitResult{}, 0},
		{"run_for", attrs{"run_for": str("10s")}, drivers.ExitResult{}, 10 * time.Second},
		{"exit_code", attrs{"run_for": str("1s"), "exit_code": cty.NumberIntVal(3)}, drivers.ExitResult{ExitCode: 3}, time.Second},
		{"exit_signal", attrs{"exit_signal": cty.NumberIntVal(9)}, drivers.ExitResult{ExitCode: 137, Signal: 9}, 0},
		{"oom_killed", attrs{"oom_killed": cty.True}, drivers.ExitResult{OOMKilled: true}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, cfg, began := driver(), config(tt.attrs), time.Now()
				if _, err := d.StartTask(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
				got, err := d.WaitTask(t.Context(), cfg.ID)
				if err != nil || *got != tt.want {
					t.Errorf("WaitTask() = %+v, %v, want %+v", got, err, tt.want)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("ended after %v, want %v", took, tt.after)
				}
			})
		})
	}
}

func TestExitError(t *testing.T) {
	d, cfg := driver(), config(attrs{"exit_err_msg": str("boom")})
	if _, err := d.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	got, err := d.WaitTask(t.Context(), cfg.ID)
	if err != nil || got.Err == nil || got.Err.Error() != "boom" || got.Successful() {
		t.Errorf("WaitTask() = %+v, %v, want the error boom", got, err)
	}
}

func TestStartError(t *testing.T) {
	for _, recoverable := range []bool{false, true} {
		_, err := driver().StartTask(t.Context(), config(attrs{"start_error": str("no"), "start_error_recoverable": cty.BoolVal(recoverable)}))
		_, is := errors.AsType[*drivers.RecoverableError](err)
		if err == nil || err.Error() != "no" || is != recoverable {
			t.Errorf("StartTask() = %v, recoverable %t, want %t", err, is, recoverable)
		}
	}
}

func TestStartBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := driver().StartTask(t.Context(), config(attrs{"start_block_for": str("5s")})); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("start took %v, want 5s", took)
		}
	})
}

func TestStop(t *testing.T) {
	tests := []struct {
		killAfter string
		timeout   time.Duration
		want      time.Duration
	}{{"0s", time.Minute, 0}, {"3s", time.Minute, 3 * time.Second}, {"10m", time.Second, time.Second}}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			d, cfg := driver(), config(attrs{"run_for": str("1h"), "kill_after": str(tt.killAfter)})
			if _, err := d.StartTask(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if err := d.DestroyTask(cfg.ID, false); err == nil {
				t.Error("DestroyTask(running) = nil, want an error")
			}
			began := time.Now()
			if err := d.StopTask(t.Context(), cfg.ID, tt.timeout, "SIGINT"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != tt.want {
				t.Errorf("kill_after %s: stop took %v, want %v", tt.killAfter, took, tt.want)
			}
			if got, err := d.WaitTask(t.Context(), cfg.ID); err != nil || got.Signal != 9 {
				t.Errorf("WaitTask() = %+v, %v, want killed", got, err)
			}
			if err := d.DestroyTask(cfg.ID, false); err != nil {
				t.Errorf("DestroyTask() = %v", err)
			}
			if _, err := d.InspectTask(cfg.ID); !errors.Is(err, drivers.ErrTaskNotFound) {
				t.Errorf("InspectTask() = %v, want %v", err, drivers.ErrTaskNotFound)
			}
		})
	}
}

func TestSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, cfg := driver(), config(attrs{"run_for": str("1m"), "signal_error": str("deaf")})
		if _, err := d.StartTask(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		for signal, want := range map[string]string{"SIGHUP": "deaf", "SIGNONE": "unknown signal"} {
			if err := d.SignalTask(cfg.ID, signal); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("SignalTask(%s) = %v, want %q", signal, err, want)
			}
		}
		if err := d.DestroyTask(cfg.ID, true); err != nil {
			t.Error(err)
		}
	})
}

// TestRecover recovers the task in a second driver halfway.
func TestRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(attrs{"run_for": str("10s"), "exit_code": cty.NumberIntVal(4)})
		began := time.Now()
		first := driver()
		h, err := first.StartTask(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer first.DestroyTask(cfg.ID, true)
		<-time.After(6 * time.Second)
		d := driver()
		if err := d.RecoverTask(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		got, err := d.WaitTask(t.Context(), cfg.ID)
		if err != nil || got.ExitCode != 4 || time.Since(began) != 10*time.Second {
			t.Errorf("WaitTask() = %+v, %v after %v, want code 4 after 10s", got, err, time.Since(began))
		}
	})
}

func TestPluginExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, cfg := driver(), config(attrs{"run_for": str("10s"), "plugin_exit_after": str("1s")})
		if _, err := d.StartTask(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := d.WaitTask(t.Context(), cfg.ID); err == nil {
			t.Error("first WaitTask() = nil, want an error")
		}
		if got, err := d.WaitTask(t.Context(), cfg.ID); err != nil || !got.Successful() {
			t.Errorf("second WaitTask() = %+v, %v, want success", got, err)
		}
	})
}

func TestOutput(t *testing.T) {
	dir := t.TempDir()
	d, cfg := driver(), config(attrs{"stdout_string": str("hi\n"), "stdout_repeat": cty.NumberIntVal(2), "stderr_string": str("err\n"),
		"run_for": str("50ms")})
	cfg.Log, cfg.LogDir = drivers.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1}, dir
	if _, err := d.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"web.stdout.0": "hi\n", "web.stderr.0": "err\n"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("%s = %q, %v, want %q", name, b, err, want)
		}
	}
	if _, err := d.WaitTask(t.Context(), cfg.ID); err != nil {
		t.Error(err)
	}
}

func TestBadConfig(t *testing.T) {
	for name, v := range (attrs{"run_for": str("soon"), "exit_code": cty.NumberFloatVal(1.5), "start_error": cty.True}) {
		if _, err := driver().StartTask(t.Context(), config(attrs{name: v})); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: StartTask() = %v, want an error that names it", name, err)
		}
	}
}

func TestSpecs(t *testing.T) {
	d := driver()
	for name, s := range map[string]hcldec.Spec{"config": d.ConfigSpec(), "task": d.TaskSpec()} {
		if !hcldec.ImpliedType(s).IsObjectType() {
			t.Errorf("%s schema is not an object", name)
		}
	}
}
