package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

// defaultScriptTimeout is the default of change_script.timeout.
const defaultScriptTimeout = 5 * time.Second

// pending collects the changed templates. Those of a pass are released together.
type pending struct {
	released wake.Signal

	mu      sync.Mutex
	current []*entry // of the current pass
	due     []*entry
}

func newPending() *pending { return &pending{released: wake.New()} }

// add adds a changed template to the current pass.
func (p *pending) add(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = append(p.current, e)
}

// hasEnv reports whether the current pass has changed environment variables.
func (p *pending) hasEnv() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.current, func(e *entry) bool { return e.t.Envvars })
}

// release ends the current pass.
func (p *pending) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.current {
		if !slices.ContainsFunc(p.due, func(other *entry) bool { return other.to == e.to }) {
			p.due = append(p.due, e)
		}
	}
	p.current = nil
	if len(p.due) == 0 {
		return
	}
	p.released.Send()
}

// splay returns the longest splay of the changed templates.
func (p *pending) splay() (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.due {
		longest = max(longest, e.t.Splay)
	}
	return longest
}

// take returns the changed templates.
func (p *pending) take() []*entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.due
	p.due = nil
	return due
}

// applyChanges applies the change modes of changed templates while the task runs.
func (r *run) applyChanges(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.started:
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.pending.released:
		}
		if splay := r.pending.splay(); splay > 0 && backoff.Sleep(ctx, rand.N(splay)) != nil {
			return
		}
		r.apply(ctx, r.pending.take())
	}
}

// apply applies the change modes of templates that changed together: a single restart, else each
// distinct signal once, then the scripts.
func (r *run) apply(ctx context.Context, changed []*entry) {
	var signals []string
	var scripts []*entry
	for _, e := range changed {
		switch e.t.ChangeMode {
		case nomad.TemplateChangeModeNoop:
		case nomad.TemplateChangeModeSignal:
			if !slices.Contains(signals, e.t.ChangeSignal) {
				signals = append(signals, e.t.ChangeSignal)
			}
		case nomad.TemplateChangeModeScript:
			scripts = append(scripts, e)
		default: // restart
			r.restart(ctx)
			return
		}
	}
	if len(signals) > 0 && !r.signal(ctx, signals) {
		return
	}
	r.runScripts(ctx, scripts)
}

func (r *run) restart(ctx context.Context) {
	err := r.t.deps.Task.Restart(ctx,
		&nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: "Template with change_mode restart re-rendered"})
	if err != nil && ctx.Err() == nil && !errors.Is(err, r.t.deps.NotRunning) { // the next process starts with the new content
		r.t.deps.Log.Warn("restart after a changed template", "err", err)
	}
}

// signal sends the signals. A signal that cannot be sent kills the task, which would otherwise keep
// using the old content. It reports whether the task runs on.
func (r *run) signal(ctx context.Context, signals []string) bool {
	var failed []string
	var errs []error
	for _, name := range signals {
		err := r.t.deps.Task.Signal(&nomad.TaskEvent{Type: nomad.TaskSignaling, TaskSignal: name, TaskSignalReason: "Template re-rendered"}, name)
		if errors.Is(err, r.t.deps.NotRunning) {
			r.t.deps.Task.Emit(&nomad.TaskEvent{Type: nomad.TaskHookMessage,
				Message: fmt.Sprintf("Template skipped signal %s: task is not running", name)})
			continue
		}
		if err != nil {
			failed, errs = append(failed, name), append(errs, err)
		}
	}
	if len(errs) == 0 {
		return true
	}
	r.kill(ctx, fmt.Sprintf("Template failed to send signals %v: %v", failed, errors.Join(errs...)))
	return false
}

// runScripts runs the scripts of templates in parallel. A failed one kills the task if fail_on_error is
// set.
func (r *run) runScripts(ctx context.Context, entries []*entry) {
	var work sync.WaitGroup
	var mu sync.Mutex
	fatal := false
	for _, e := range entries {
		work.Go(func() {
			if ok := r.runScript(ctx, e.t.ChangeScript); !ok && e.t.ChangeScript != nil && e.t.ChangeScript.FailOnError {
				mu.Lock()
				defer mu.Unlock()
				fatal = true
			}
		})
	}
	work.Wait()
	if fatal && ctx.Err() == nil {
		r.kill(ctx, "Template script failed, task is being killed")
	}
}

// runScript runs a script in the task and emits its result. It reports whether the script succeeded.
func (r *run) runScript(ctx context.Context, s *nomad.ChangeScript) bool {
	if s == nil {
		r.hookFailed("Template has change_mode script and no change_script")
		return false
	}
	if r.exec == nil {
		r.hookFailed(fmt.Sprintf("Template failed to run script %s with arguments: %v: the driver cannot run commands in the task",
			s.Command, s.Args))
		return false
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, defaultScriptTimeout))
	defer cancel()
	_, exit, err := r.exec(limited, append([]string{s.Command}, s.Args...))
	switch {
	case ctx.Err() != nil:
		return true // the task has ended
	case err != nil:
		r.hookFailed(fmt.Sprintf("Template failed to run script %s with arguments: %v: %v", s.Command, s.Args, err))
		return false
	case !exit.Successful():
		r.hookFailed(fmt.Sprintf("Template ran script %s with arguments: %v but it exited with code: %d", s.Command, s.Args, exit.ExitCode))
		return false
	}
	r.t.deps.Task.Emit(&nomad.TaskEvent{Type: nomad.TaskHookMessage,
		Message: fmt.Sprintf("Template successfully ran script %s with arguments: %v. Exit code: 0", s.Command, s.Args)})
	return true
}

func (r *run) hookFailed(message string) {
	r.t.deps.Task.Emit(&nomad.TaskEvent{Type: nomad.TaskHookFailed, Message: message})
}

// onFirstRender reports whether a template has a script that runs after the first render.
func onFirstRender(e *entry) bool {
	return e.t.ChangeMode == nomad.TemplateChangeModeScript && e.t.ChangeScript != nil && e.t.ChangeScript.RunOnFirstRender
}

func (r *run) hasFirstScripts() bool { return slices.ContainsFunc(r.list(), onFirstRender) }

// firstScripts runs the scripts of run_on_first_render after the first complete render.
func (r *run) firstScripts(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-r.complete:
		r.runScripts(ctx, slices.DeleteFunc(r.list(), func(e *entry) bool { return !onFirstRender(e) }))
	}
}
