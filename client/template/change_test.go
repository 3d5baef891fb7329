package template_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// scripts records the commands that run in the task.
type scripts struct {
	mu       sync.Mutex
	commands []string
	exit     int
	err      error
	until    bool // the end of the context
}

func (s *scripts) exec(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error) {
	s.mu.Lock()
	s.commands = append(s.commands, strings.Join(command, " "))
	exit, err, until := s.exit, s.err, s.until
	s.mu.Unlock()
	if until {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	return nil, &drivers.ExitResult{ExitCode: exit}, err
}

func (s *scripts) ran() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

func mode(t *nomad.Template, mode, signal string) *nomad.Template {
	return with(t, func(n *nomad.Template) { n.ChangeMode, n.ChangeSignal = mode, signal })
}

func script(t *nomad.Template, s nomad.ChangeScript) *nomad.Template {
	return with(t, func(n *nomad.Template) { n.ChangeMode, n.ChangeScript = "script", &s })
}

// changes starts a task with templates that all depend on one variable, and changes it.
func changes(t *testing.T, exec template.Exec, list ...*nomad.Template) *world {
	t.Helper()
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.mustBegin(w.start(list...))
	w.all.Started(exec)
	w.vars.Set("a", map[string]string{"x": "2"})
	return w
}

func TestChangedTogether(t *testing.T) {
	a := func(dest string) *nomad.Template { return variable(dest, "a", "x") }
	for name, c := range map[string]struct {
		list     []*nomad.Template
		restarts int
		signals  []string
		scripts  []string
	}{
		"one restart": {[]*nomad.Template{mode(a("local/1"), "restart", ""), mode(a("local/2"), "signal", "SIGHUP"),
			mode(a("local/3"), "restart", ""),
			script(a("local/4"), nomad.ChangeScript{Command: "never"})}, 1, nil, nil},
		"the default is a restart": {[]*nomad.Template{mode(a("local/1"), "", "")}, 1, nil, nil},
		"distinct signals, then scripts": {[]*nomad.Template{script(a("local/1"), nomad.ChangeScript{Command: "/s", Args: []string{"x"}}),
			mode(a("local/2"), "signal", "SIGHUP"),
			mode(a("local/3"), "signal", "SIGUSR1"), mode(a("local/4"), "signal", "SIGHUP"), mode(a("local/5"), "noop", "")}, 0,
			[]string{"SIGHUP", "SIGUSR1"}, []string{"/s x"}},
		"nothing": {[]*nomad.Template{mode(a("local/1"), "noop", "")}, 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripts{}
			w := changes(t, s.exec, c.list...)
			matches := func() bool {
				return w.task.read(func(k *task) bool { return k.restarts == c.restarts && slices.Equal(k.signals, c.signals) }) &&
					slices.Equal(s.ran(), c.scripts)
			}
			w.until("the change modes are applied", func() bool { return w.file("local/1") == "2" && matches() })
			// Another change shows that nothing else was pending.
			w.vars.Set("a", map[string]string{"x": "3"})
			w.until("the next change arrives", func() bool { return w.file("local/1") == "3" })
			if n := w.task.restarted(); n > 2*c.restarts {
				t.Errorf("%d restarts for two changes", n)
			}
		})
	}
}

// A change that arrives before the process has started is applied afterwards.
func TestChangeBeforeTheProcess(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.mustBegin(w.start(mode(variable("local/1", "a", "x"), "restart", "")))
	w.vars.Set("a", map[string]string{"x": "2"})
	w.until("the change arrives", func() bool { return w.file("local/1") == "2" })
	if w.task.restarted() > 0 {
		t.Error("restarted before the process has started")
	}
	w.all.Started(nil)
	w.until("the task restarts", func() bool { return w.task.read(func(k *task) bool { return k.restarts == 1 }) })
}

// Changes within the splay are applied once.
func TestSplay(t *testing.T) {
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "0"})
	w.runs(with(mode(variable("local/1", "a", "x"), "restart", ""), func(n *nomad.Template) { n.Splay = 200 * time.Hour }))
	for i := range 3 {
		w.vars.Set("a", map[string]string{"x": fmt.Sprint(i)})
		w.until("the change is written", func() bool { return w.file("local/1") == fmt.Sprint(i) })
	}
	if w.task.restarted() > 0 {
		t.Error("restarted within the splay") // one in 200 hours
	}
}

func TestSignalsOfAStoppedTask(t *testing.T) {
	w := newWorld(t)
	w.task.stopped = true
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(mode(variable("local/1", "a", "x"), "signal", "SIGHUP"))
	w.vars.Set("a", map[string]string{"x": "2"})
	w.until("it is skipped", func() bool {
		return slices.Equal(w.task.messages(nomad.TaskHookMessage), []string{"Template skipped signal SIGHUP: task is not running"})
	})
	if len(w.task.killed()) > 0 {
		t.Errorf("kills %q", w.task.killed())
	}
}

func TestFailedSignalKills(t *testing.T) {
	w := newWorld(t)
	w.task.refuse = errors.New("operation not permitted")
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(mode(variable("local/1", "a", "x"), "signal", "SIGHUP"))
	w.vars.Set("a", map[string]string{"x": "2"})
	w.until("the task is killed", func() bool {
		return w.task.read(func(k *task) bool {
			return slices.Equal(k.kills, []string{"Template failed to send signals [SIGHUP]: operation not permitted"})
		})
	})
}

func TestScripts(t *testing.T) {
	for name, c := range map[string]struct {
		s         *scripts
		change    nomad.ChangeScript
		kind      string
		message   string
		kills     bool
		noScripts bool
	}{
		"success": {&scripts{}, nomad.ChangeScript{Command: "/s", Args: []string{"a", "b"}}, nomad.TaskHookMessage,
			"Template successfully ran script /s with arguments: [a b]. Exit code: 0", false, false},
		"exit code": {&scripts{exit: 3}, nomad.ChangeScript{Command: "/s"}, nomad.TaskHookFailed,
			"Template ran script /s with arguments: [] but it exited with code: 3", false, false},
		"cannot run": {&scripts{err: errors.New("no such file")}, nomad.ChangeScript{Command: "/s"}, nomad.TaskHookFailed,
			"Template failed to run script /s with arguments: []: no such file", false, false},
		"fail_on_error": {&scripts{exit: 3}, nomad.ChangeScript{Command: "/s", FailOnError: true}, nomad.TaskHookFailed, "exited with code: 3",
			true, false},
		"timeout": {&scripts{until: true}, nomad.ChangeScript{Command: "/s", Timeout: 10 * time.Millisecond}, nomad.TaskHookFailed,
			"context deadline exceeded", false, false},
		"driver without": {&scripts{}, nomad.ChangeScript{Command: "/s"}, nomad.TaskHookFailed, "the driver cannot run commands in the task",
			false, true},
	} {
		t.Run(name, func(t *testing.T) {
			exec := template.Exec(c.s.exec)
			if c.noScripts {
				exec = nil
			}
			w := changes(t, exec, script(variable("local/1", "a", "x"), c.change))
			w.until("the event", func() bool { return count(w.task.messages(c.kind), c.message) == 1 })
			if c.kills {
				w.until("the task is killed", func() bool {
					return w.task.read(func(k *task) bool {
						return slices.Equal(k.kills, []string{"Template script failed, task is being killed"})
					})
				})
			}
			if len(w.task.killed()) > 0 != c.kills {
				t.Errorf("kills %q", w.task.killed())
			}
		})
	}
}

// run_on_first_render runs once per agent, after the process has started.
func TestScriptOfTheFirstRender(t *testing.T) {
	w := newWorld(t)
	s := &scripts{}
	first := script(text("local/1", "x"), nomad.ChangeScript{Command: "/first", RunOnFirstRender: true})
	other := script(text("local/2", "x"), nomad.ChangeScript{Command: "/other"})
	start := func(running bool) {
		t.Helper()
		st := w.start(first, other)
		st.Running = running
		b := w.mustBegin(st)
		if background := w.all.Started(s.exec); background != nil {
			background(t.Context())
		}
		b.stop()
	}
	start(false)
	if got := s.ran(); !slices.Equal(got, []string{"/first"}) {
		t.Errorf("scripts %q, want the one of the first render", got)
	}
	start(false) // a restart of the task
	if got := s.ran(); len(got) != 1 {
		t.Errorf("scripts %q after a restart of the task, want no more", got)
	}
	w.restartAgent()
	start(true)
	if got := s.ran(); len(got) != 2 {
		t.Errorf("scripts %q after a restart of the agent, want one more", got)
	}
}
