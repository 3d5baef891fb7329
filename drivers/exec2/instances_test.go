package exec2_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/testaudit"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// twoInstances returns two instances of an agent: they share the supervisor and the reader of denials.
func twoInstances(t *testing.T, first, second settings) (a, b *fixture) {
	t.Helper()
	a = newFixture(t, nil)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	shared := exec2.NewDenials(log)
	for name, s := range map[string]settings{"exec2": first, "exec2-open": second} {
		d := exec2.New(exec2.Config{Name: name, Log: log, Supervisor: a.super, Denials: shared})
		if err := d.SetConfig(cty.ObjectVal(s)); err != nil {
			t.Fatal(err)
		}
		if name == "exec2" {
			a.Driver = d
			continue
		}
		b = &fixture{Driver: d, t: t, super: a.super, dir: testtask.OpenDir(t), n: 500}
	}
	return a, b
}

// TestInstances checks that instances have their own configuration, attributes and handles.
func TestInstances(t *testing.T) {
	a, b := twoInstances(t, settings{"unveil_by_task": cty.False, "pids_limit": cty.NumberIntVal(100)}, settings{"unveil_by_task": cty.True})
	got := fingerprint(t, b.Driver)
	for key := range got.Attributes {
		if !strings.HasPrefix(key, "driver.exec2-open.") {
			t.Errorf("exec2-open has the attribute %s", key)
		}
	}
	if got.Attributes["driver.exec2-open.unveil.tasks"] != "true" ||
		fingerprint(t, a.Driver).Attributes["driver.exec2.unveil.tasks"] != "false" {
		t.Errorf("attributes = %v, want those of its own configuration", got.Attributes)
	}
	unveiled := func(f *fixture) *drivers.TaskConfig {
		cfg := f.task("")
		f.config(cfg, "/bin/cat", []string{"/etc/passwd"}, "r:/etc/passwd")
		return cfg
	}
	if _, err := a.StartTask(t.Context(), unveiled(a)); err == nil || !strings.Contains(err.Error(), "unveil_by_task") {
		t.Errorf("StartTask() of exec2 = %v, want an error that names unveil_by_task", err)
	}
	b.run(unveiled(b)).Want(t, 0, "root:")

	// A running task belongs to one instance.
	cfg := b.task("/bin/sleep", "1000")
	handle, err := b.StartTask(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if handle.Driver != "exec2-open" {
		t.Errorf("the handle names %q, want exec2-open", handle.Driver)
	}
	if _, err := a.InspectTask(cfg.ID); err == nil {
		t.Error("exec2 has the task of exec2-open")
	}
	if err := a.RecoverTask(t.Context(), handle); err == nil || !strings.Contains(err.Error(), "of driver exec2-open, not exec2") {
		t.Errorf("RecoverTask() by exec2 = %v, want an error that names both", err)
	}
	later := exec2.New(exec2.Config{Name: "exec2-open", Log: slog.New(slog.DiscardHandler), Supervisor: b.super})
	if err := later.RecoverTask(t.Context(), handle); err != nil {
		t.Errorf("RecoverTask() by the same instance = %v", err)
	}
	if err := b.StopTask(t.Context(), cfg.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
}

// TestDenialsOfInstances checks that each denial is reported once, by the instance of its task, and
// not at all if that instance does not explain denials.
func TestDenialsOfInstances(t *testing.T) {
	testaudit.Need(t, denials.Audit)
	on := settings{"explain_denials": cty.StringVal("audit")}
	cat := func(f *fixture) func() *drivers.TaskConfig {
		return func() *drivers.TaskConfig { return f.task("/bin/cat", "/etc/passwd") }
	}
	a, b := twoInstances(t, on, on)
	heardA, heardB := a.report(), b.report()
	for _, f := range []*fixture{a, b} { // both have a task all the time
		cfg := f.task("/bin/sleep", "1000")
		if _, err := f.StartTask(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		defer f.StopTask(t.Context(), cfg.ID, 0, "") //nolint:errcheck // the supervisor ends it, too
	}
	for _, f := range []struct {
		*fixture
		own, other *heard
		mend       string
	}{{a, heardA, heardB, `plugin "exec2"`}, {b, heardB, heardA, `plugin "exec2-open"`}} {
		e, list := f.until(f.own, 1, cat(f.fixture))
		if len(list) != 1 || f.own.of(e.TaskID, "Sandbox Denial") != e || !strings.Contains(e.Message, f.mend) {
			t.Errorf("reported %q with %d denials, want one, with %s", e.Message, len(list), f.mend)
		}
		if f.other.of(e.TaskID, "Sandbox Denial") != nil {
			t.Error("the other instance reported the denial, too")
		}
	}

	silent, loud := twoInstances(t, nil, on)
	heardSilent, heardLoud := silent.report(), loud.report()
	loud.until(heardLoud, 1, cat(loud)) // the kernel's records are read
	silent.run(cat(silent)())
	loud.until(heardLoud, 1, cat(loud)) // and are still read, after those of the other task
	if n := heardSilent.count(); n > 0 {
		t.Errorf("an instance that does not explain denials reported %d", n)
	}
}
