package drivers_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
	plugin "github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// host returns the host of an agent, with a supervisor that starts when a task needs it.
func host(t *testing.T) *drivers.Host {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	super := supervise.NewClient(filepath.Join(t.TempDir(), "supervise"), log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		super.Close()
	})
	return drivers.NewHost(drivers.HostConfig{Log: log, Supervisor: super})
}

// open opens the instances of plugin blocks by name.
func open(t *testing.T, h *drivers.Host, given blocks) map[string]plugin.Driver {
	t.Helper()
	all, wrong := drivers.Instances(drivers.Kinds(), given)
	if len(wrong) > 0 {
		t.Fatal(wrong[0])
	}
	out := map[string]plugin.Driver{}
	for _, i := range all {
		d, err := h.Open(i)
		if err != nil {
			t.Fatal(err)
		}
		out[i.Name] = d
	}
	return out
}

// TestOwnConfiguration checks that instances of a kind have their own configuration and attributes.
func TestOwnConfiguration(t *testing.T) {
	all := open(t, host(t), blocks{
		"raw_exec": {}, "raw-open": {Backend: "raw_exec", Config: options{"enabled": true}},
		"exec2":      {Config: options{"allow_unprivileged": true}},
		"exec2-open": {Backend: "exec2", Config: options{"allow_unprivileged": true, "unveil_by_task": true}},
	})
	ctx := t.Context()
	prints := map[string]plugin.Fingerprint{}
	for name, d := range all {
		prints[name] = <-d.Fingerprint(ctx)
		for key := range prints[name].Attributes {
			if key != "driver."+name && !strings.HasPrefix(key, "driver."+name+".") {
				t.Errorf("%s has the attribute %s", name, key)
			}
		}
	}
	if prints["raw_exec"].Health != plugin.HealthUndetected || !strings.Contains(prints["raw_exec"].Description, `plugin "raw_exec"`) ||
		prints["raw-open"].Health != plugin.HealthHealthy {
		t.Errorf("raw_exec is %+v, raw-open is %+v, want only the second one enabled", prints["raw_exec"], prints["raw-open"])
	}
	if a, b := prints["exec2"], prints["exec2-open"]; a.Health == plugin.HealthHealthy &&
		(a.Attributes["driver.exec2.unveil.tasks"] != "false" || b.Attributes["driver.exec2-open.unveil.tasks"] != "true") {
		t.Errorf("exec2 is %+v, exec2-open is %+v, want only the second one with unveil_by_task", a, b)
	}
}

// TestMissingFile checks that a file of the configuration is read when the driver is opened.
func TestMissingFile(t *testing.T) {
	given := blocks{"open": {Backend: "exec2", Config: options{"seccomp_profiles": options{"few": "/nonexistent/few.json"}}}}
	all, wrong := drivers.Instances(drivers.Kinds(), given)
	if len(wrong) > 0 {
		t.Fatalf("Instances() reads files: %v", wrong[0])
	}
	for _, i := range all {
		if _, err := host(t).Open(i); (err != nil) != (i.Name == "open") || err != nil &&
			!strings.Contains(err.Error(), "/nonexistent/few.json") {
			t.Errorf("Open(%s) = %v", i.Name, err)
		}
	}
}

// TestHandleOfAnotherBackend checks that an instance refuses the task of an earlier instance with its
// name, if that was of another kind.
func TestHandleOfAnotherBackend(t *testing.T) {
	h := host(t)
	first := open(t, h, blocks{"x": {Backend: "mock_driver"}})["x"]
	v, err := plugin.Decode(options{"run_for": "1h"}, first.TaskSpec())
	if err != nil {
		t.Fatal(err)
	}
	handle, err := first.StartTask(t.Context(), &plugin.TaskConfig{ID: "a/t/1", Name: "t", Config: v, Log: plugin.LogConfig{Disabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	if handle.Driver != "x" {
		t.Errorf("the handle names %q, want the instance x", handle.Driver)
	}
	if err := open(t, h, blocks{"x": {Backend: "mock_driver"}})["x"].RecoverTask(t.Context(), handle); err != nil {
		t.Errorf("RecoverTask() of the same kind = %v", err)
	}
	for _, kind := range []string{"exec2", "raw_exec"} {
		err := open(t, h, blocks{"x": {Backend: kind}})["x"].RecoverTask(t.Context(), handle)
		if err == nil || !strings.Contains(err.Error(), `backend "mock_driver"`) {
			t.Errorf("RecoverTask() by %s = %v, want an error that names mock_driver", kind, err)
		}
	}
	process := &plugin.TaskHandle{Driver: "x", Version: 1, TaskID: "a/t/2", State: []byte(`{"Name":"t","Backend":"raw_exec"}`)}
	if err := first.RecoverTask(t.Context(), process); err == nil || !strings.Contains(err.Error(), `backend "raw_exec"`) {
		t.Errorf("RecoverTask() of a task of raw_exec by mock_driver = %v, want an error that names raw_exec", err)
	}
	if err := first.DestroyTask("a/t/1", true); err != nil {
		t.Error(err)
	}
}
