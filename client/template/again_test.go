package template_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/template"
)

func TestRenderOnDemand(t *testing.T) {
	w := newWorld(t)
	if _, err := w.all.RenderAgain(t.Context()); !errors.Is(err, errNotRunning) {
		t.Errorf("RenderAgain() before the start = %v", err)
	}
	w.vars.Set("a", map[string]string{"x": "1"})
	w.put("local/in", "1")
	b := w.runs(
		mode(text("local/same", "same"), "signal", "SIGUSR1"),
		mode(text("local/source-like", `{{ timestamp "unix" }}{{ timestamp }}`), "noop", ""),
		mode(text("local/static", "static"), "signal", "SIGHUP"),
		variable("local/a", "a", "x"))
	before := w.file("local/source-like")
	w.put("local/static", "changed by the task")
	diffs, err := w.all.CompareRender(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(diffs) != 4 || diffs[0].Changed || !diffs[2].Changed || diffs[3].Changed ||
		string(diffs[2].Old) != "changed by the task" || string(diffs[2].New) != "static" || diffs[2].Destination != "local/static" {
		t.Errorf("differences %+v", diffs)
	}
	if w.file("local/static") != "changed by the task" || len(w.task.sent()) > 0 {
		t.Error("the comparison has an effect")
	}
	diffs, err = w.all.RenderAgain(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(diffs) != 4 || diffs[0].Changed || !diffs[2].Changed || w.file("local/static") != "static" {
		t.Errorf("differences %+v, content %q", diffs, w.file("local/static"))
	}
	w.until("the change mode is applied", func() bool {
		return w.task.read(func(k *task) bool { return len(k.signals) == 1 && k.signals[0] == "SIGHUP" })
	})
	if !diffs[1].Changed && w.file("local/source-like") == before {
		t.Log("rendered within the same second")
	}
	if _, running := w.programsRun(); running != 1 {
		t.Errorf("%d programs run, want the watching one", running)
	}
	b.stop()
	if _, err := w.all.RenderAgain(t.Context()); !errors.Is(err, errNotRunning) {
		t.Errorf("RenderAgain() after the end = %v", err)
	}
}

func TestCompareLargeAndMissing(t *testing.T) {
	w := newWorld(t)
	w.put("local/in", strings.Repeat("x", template.MaxDiff+1))
	w.runs(text("local/out", `{{ file "local/in" }}`))
	w.put("local/out", "y")
	diffs, err := w.all.CompareRender(t.Context())
	if err != nil || len(diffs) != 1 || !diffs[0].Changed || len(diffs[0].New) != template.MaxDiff || string(diffs[0].Old) != "y" ||
		!diffs[0].Cut {
		t.Errorf("CompareRender() = %d differences, %v", len(diffs), err)
	}
}

func TestRenderAgainFails(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(variable("local/a", "a", "x"))
	w.vars.Fail(500)
	_, err := w.all.RenderAgain(t.Context())
	if err == nil || !strings.Contains(err.Error(),
		`template with destination "local/a": nomad.var.block(a@default.global): the API returned status 500`) {
		t.Errorf("RenderAgain() = %v", err)
	}
	if len(w.task.killed()) > 0 || w.file("local/a") != "1" {
		t.Errorf("kills %q, content %q", w.task.killed(), w.file("local/a"))
	}
}
