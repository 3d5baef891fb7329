package template_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvars"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// The start waits for missing data, which is reported after a while, and again when it changes.
func TestMissingBlocksTheStart(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	done := make(chan error, 1)
	begun := time.Now()
	go func() {
		_, err := w.begin(w.start(variable("local/a", "a", "x"), variable("local/b", "b", "x"), variable("local/c", "c", "x"),
			variable("local/d", "d", "x"), variable("local/e", "e", "x")))
		done <- err
	}()
	w.until("the missing data is reported", func() bool { return len(w.task.messages(nomad.TaskTemplate)) == 1 })
	if took := time.Since(begun); took < 3*time.Second {
		t.Errorf("reported after %v, want 3s", took)
	}
	const name = "nomad.var.block(%@default.global)"
	want := "Missing: " + strings.ReplaceAll(name, "%", "a") + ", " + strings.ReplaceAll(name, "%", "b") + ", " + strings.ReplaceAll(name, "%",
		"c") + ", and 2 more"
	if got := w.task.messages(nomad.TaskTemplate); got[0] != want {
		t.Errorf("event = %q, want %q", got[0], want)
	}
	for _, path := range []string{"a", "b", "c", "d"} {
		w.vars.Set(path, map[string]string{"x": path})
	}
	w.until("the rest is reported", func() bool { return len(w.task.messages(nomad.TaskTemplate)) == 2 })
	if got := w.task.messages(nomad.TaskTemplate)[1]; got != "Missing: "+strings.ReplaceAll(name, "%", "e") {
		t.Errorf("event = %q", got)
	}
	select {
	case err := <-done:
		t.Fatalf("Begin() returned without data: %v", err)
	default:
	}
	w.vars.Set("e", map[string]string{"x": "e"})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if w.file("local/a") != "a" || w.file("local/e") != "e" {
		t.Errorf("files %q and %q", w.file("local/a"), w.file("local/e"))
	}
}

// A kill of the task ends the wait, and the program.
func TestKilledWhileMissing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := w.all.Begin(ctx, w.start(variable("local/a", "a", "x")))
		done <- err
	}()
	w.until("it waits", func() bool { _, running := w.programsRun(); return running == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Begin() = %v", err)
	}
	if _, running := w.programsRun(); running != 0 {
		t.Error("the program still runs")
	}
}

func TestRetriesAreSpent(t *testing.T) {
	w := newWorld(t)
	w.vars.Fail(500)
	_, err := w.begin(w.start(text("local/s", "s"), variable("local/a", "a", "x")))
	if err == nil || !strings.Contains(err.Error(),
		`Template failed: template with destination "local/a": nomad.var.block(a@default.global): the API returned status 500`) {
		t.Errorf("Begin() = %v", err)
	}
}

// Before the first render there is no content that could stay.
func TestOutageBeforeTheFirstRender(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.config.NomadRetry.Attempts = 0
	w.restartAgent()
	w.vars.Fail(500)
	done := make(chan error, 1)
	go func() {
		_, err := w.all.Begin(t.Context(), w.start(variable("local/a", "a", "x")))
		done <- err
	}()
	w.until("the outage is reported", func() bool { return count(w.task.messages(nomad.TaskTemplate), "Cannot read") > 0 })
	if got := w.task.messages(nomad.TaskTemplate); count(got, "The task waits for the next successful read") != 1 {
		t.Errorf("events %q", got)
	}
	w.vars.Set("a", map[string]string{"x": "1"})
	w.vars.Fail(0)
	if err := <-done; err != nil || w.file("local/a") != "1" {
		t.Errorf("Begin() = %v, file %q", err, w.file("local/a"))
	}
}

func TestWrongTokenIsSpent(t *testing.T) {
	w := newWorld(t)
	s := w.start(variable("local/a", "a", "x"))
	s.Token = idtoken.New("another-token", "")
	if _, err := w.begin(s); err == nil || !strings.Contains(err.Error(), "status 403: Permission denied") ||
		strings.Contains(err.Error(), "another-token") {
		t.Errorf("Begin() = %v", err)
	}
}

// An outage of the servers, of the socket or of the program never kills a running task. It is one
// event, and its end another.
func TestOutagesKeepTheTask(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, outage := range map[string]func(*world) (end func()){
		"servers": func(w *world) func() {
			w.vars.Fail(500)
			return func() { w.vars.Fail(0) }
		},
		"socket": func(w *world) func() {
			w.vars.Stop()
			return func() { w.vars.Listen(w.t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.vars.Set("a", map[string]string{"x": "1"})
			w.runs(with(variable("local/a", "a", "x"), func(n *nomad.Template) { n.ChangeMode = "restart" }))
			end := outage(w)
			w.until("the outage is reported", func() bool { return count(w.task.messages(nomad.TaskTemplate), "The last content stays") == 1 })
			w.vars.Set("a", map[string]string{"x": "2"})
			if w.file("local/a") != "1" {
				t.Errorf("content %q during the outage", w.file("local/a"))
			}
			end()
			w.until("the change arrives", func() bool { return w.file("local/a") == "2" })
			w.until("the end is reported", func() bool { return count(w.task.messages(nomad.TaskTemplate), "up to date again") == 1 })
			w.until("the task restarts", func() bool { return w.task.read(func(k *task) bool { return k.restarts == 1 }) })
			if got := w.task.messages(nomad.TaskTemplate); len(got) != 2 ||
				!strings.HasSuffix(got[0], "The last content stays until the next successful read") || len(w.task.killed()) > 0 {
				t.Errorf("events %q, kills %q", got, w.task.killed())
			}
		})
	}
}

// A start during an outage uses the content of the previous start, for which it waits a short time
// only.
func TestStartDuringAnOutage(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	a := with(variable("local/a", "a", "x"), func(n *nomad.Template) { n.ChangeMode = "restart" })
	w.runs(a).stop()
	w.vars.Fail(500)
	w.restartAgent()
	b := w.runs(a)
	if w.file("local/a") != "1" || len(b.State) != 1 {
		t.Errorf("content %q, state %v", w.file("local/a"), b.State)
	}
	w.vars.Set("a", map[string]string{"x": "2"})
	w.vars.Fail(0)
	w.until("the change restarts the task", func() bool {
		return w.file("local/a") == "2" && w.task.read(func(k *task) bool { return k.restarts == 1 })
	})
	if kills := w.task.killed(); len(kills) > 0 {
		t.Errorf("kills %q", kills)
	}
}

// A program that dies is started again, and the task is not touched.
func TestProgramDies(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(with(variable("local/a", "a", "x"), func(n *nomad.Template) { n.ChangeMode = "restart" }))
	for deaths := 1; deaths <= 2; deaths++ {
		w.mu.Lock()
		err := w.programs[len(w.programs)-1].Process.Signal(syscall.SIGKILL)
		w.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		w.until("it is started again", func() bool { started, running := w.programsRun(); return started == deaths+1 && running == 1 })
	}
	w.vars.Set("a", map[string]string{"x": "2"})
	w.until("it works", func() bool { return w.file("local/a") == "2" })
	w.until("the change restarts the task", func() bool { return w.task.read(func(k *task) bool { return k.restarts == 1 }) })
	w.until("the end is reported", func() bool { return count(w.task.messages(nomad.TaskTemplate), "up to date again") > 0 })
	got := w.task.messages(nomad.TaskTemplate)
	if count(got, "ended: signal 9. It is started again") == 0 || len(got) > 4 {
		t.Errorf("events %q, want one per death that was not reported yet, and its end", got)
	}
	if len(w.task.killed()) > 0 {
		t.Errorf("kills %q", w.task.killed())
	}
}

// A program that always dies before the first render fails the start.
func TestProgramDiesAtOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	s := w.start(text("local/a", "a"))
	confined, err := s.Confine()
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	run := confined.Run
	confined.Run = func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
		runs++
		s.Args = []string{"no-entry"} // prints a message and exits
		if strings.HasSuffix(os.Args[0], ".test") && s.Program.Name() == "/proc/self/exe" {
			return &drivers.ExitResult{ExitCode: 2}, nil // a build without embedded programs would run the tests again
		}
		return run(ctx, s)
	}
	s.Confine = func() (*template.Confinement, error) { return confined, nil }
	_, err = w.begin(s)
	if err == nil || !strings.Contains(err.Error(), "Template failed: the program that renders templates ended: exit code 2") || runs != 3 {
		t.Errorf("Begin() = %v after %d runs, want an error after 3", err, runs)
	}
}

// A missing key, or another error of a template, kills a running task.
func TestTemplateErrorKills(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(with(variable("local/a", "a", "x"), func(n *nomad.Template) { n.ErrMissingKey = true }))
	w.vars.Set("a", map[string]string{"y": "1"})
	w.until("the task is killed", func() bool { return w.task.read(func(k *task) bool { return len(k.kills) > 0 }) })
	if want := `Template failed: template with destination "local/a", line 1: at <.x>: map has no entry for key "x"`; w.task.killed()[0] != want {
		t.Errorf("reason = %q, want %q", w.task.killed()[0], want)
	}
	if w.file("local/a") != "1" {
		t.Errorf("content = %q, want the last one", w.file("local/a"))
	}
}

// After a restart of the agent, files are rendered again. The change mode applies only if one has
// changed meanwhile.
func TestAgentRestart(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.vars.Set("b", map[string]string{"x": "1"})
	list := []*nomad.Template{
		with(variable("local/a", "a", "x"), func(n *nomad.Template) { n.ChangeMode, n.ChangeSignal = "signal", "SIGHUP" }),
		with(variable("local/b", "b", "x"), func(n *nomad.Template) { n.ChangeMode, n.ChangeSignal = "signal", "SIGUSR1" }),
		text("local/s", "s"),
	}
	w.runs(list...).stop()
	w.vars.Set("b", map[string]string{"x": "2"})
	w.restartAgent()
	s := w.start(list...)
	s.Running = true
	w.mustBegin(s)
	w.all.Started(nil)
	w.until("the missed change is applied", func() bool {
		return w.file("local/b") == "2" && w.task.read(func(k *task) bool { return len(k.signals) > 0 })
	})
	w.vars.Set("a", map[string]string{"x": "2"})
	w.until("the next change is applied", func() bool { return w.task.read(func(k *task) bool { return len(k.signals) == 2 }) })
	if got := w.task.sent(); !slices.Equal(got, []string{"SIGUSR1", "SIGHUP"}) {
		t.Errorf("signals %q, want that of the changed file and then the other", got)
	}
}

// The template of a recovered task with an error, and missing data, do not stop it.
func TestAgentRestartWithoutData(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(variable("local/a", "a", "x")).stop()
	w.vars.Delete("a")
	w.restartAgent()
	s := w.start(variable("local/a", "a", "x"))
	s.Running = true
	w.mustBegin(s)
	w.all.Started(nil)
	w.until("the missing data is reported", func() bool { return count(w.task.messages(nomad.TaskTemplate), "Missing: ") == 1 })
	if w.file("local/a") != "1" || len(w.task.killed()) > 0 {
		t.Errorf("content %q, kills %q", w.file("local/a"), w.task.killed())
	}
}

// An update of the text is rendered in place, with the change mode.
func TestUpdate(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	restart := func(n *nomad.Template) { n.ChangeMode = "restart" }
	static := with(text("local/s", "old"), restart)
	w.runs(static, variable("local/a", "a", "x"))
	begun := time.Now()
	w.all.Update([]*nomad.Template{static, variable("local/a", "a", "x")}, idtoken.Token{})
	w.all.Update([]*nomad.Template{with(text("local/s", "new"), restart), variable("local/a", "a", "x")}, idtoken.New(testvars.Token, ""))
	w.until("the new text is rendered", func() bool { return w.file("local/s") == "new" })
	w.until("the task restarts", func() bool { return w.task.read(func(k *task) bool { return k.restarts == 1 }) })
	if started, _ := w.programsRun(); started != 2 {
		t.Errorf("%d programs, want one more for the one real update (%v)", started, time.Since(begun))
	}
	// A task whose templates are static gets new text, too.
	w = newWorld(t)
	w.runs(static)
	w.until("the program has ended", func() bool { _, running := w.programsRun(); return running == 0 })
	w.all.Update([]*nomad.Template{with(text("local/s", "newer"), restart)}, idtoken.Token{})
	w.until("the new text is rendered", func() bool { return w.file("local/s") == "newer" })
	w.all.Update([]*nomad.Template{text("../../x", "x")}, idtoken.Token{})
	w.until("a bad update is reported", func() bool {
		return count(w.task.messages(nomad.TaskTemplate), "update of the templates is not used") == 1
	})
	if len(w.task.killed()) > 0 {
		t.Errorf("kills %q", w.task.killed())
	}
}

// A new token is used at once.
func TestNewToken(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(variable("local/a", "a", "x")).stop()
	s := w.start(variable("local/a", "a", "x"))
	s.Token = idtoken.New("expired", "")
	w.mustBegin(s)
	w.all.Started(nil)
	w.vars.Set("a", map[string]string{"x": "2"})
	w.until("the outage is reported", func() bool { return count(w.task.messages(nomad.TaskTemplate), "status 403") == 1 })
	w.all.Update(s.Templates, idtoken.New(testvars.Token, ""))
	w.until("the change arrives", func() bool { return w.file("local/a") == "2" })
	if count(w.task.messages(nomad.TaskTemplate), "expired") > 0 {
		t.Error("an event contains the token")
	}
}

// A change is written soon if no wait is set.
func TestChangeIsFast(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": ""})
	w.runs(variable("local/a", "a", "x"))
	value := ""
	testpace.Once(t, 300*time.Millisecond, "a change", func() time.Duration {
		value += "x"
		begun := time.Now()
		w.vars.Set("a", map[string]string{"x": value})
		w.until("the change arrives", func() bool { return w.file("local/a") == value })
		return time.Since(begun)
	})
}

// No file of another name is left behind.
func TestNoLeftovers(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(variable("local/a", "a", "x"), text("local/b", "b"))
	w.vars.Set("a", map[string]string{"x": "2"})
	w.until("the change arrives", func() bool { return w.file("local/a") == "2" })
	w.until("only the files are there", func() bool {
		entries, err := os.ReadDir(filepath.Join(w.dir.Path(), "local"))
		return err == nil && len(entries) == 2
	})
}
