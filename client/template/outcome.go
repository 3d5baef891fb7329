package template

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// handle handles the end of a program with an error. It reports whether to start it again.
func (r *run) handle(ctx context.Context, err error, deaths int) bool {
	var start *startError
	switch {
	case errors.As(err, new(*templateError)):
		r.fail(ctx, err)
	case r.isBegun():
		return true
	case errors.As(err, &start):
		r.fail(ctx, &drivers.RecoverableError{Err: err})
	case deaths >= firstDeaths || errors.As(err, new(*writeError)):
		r.fail(ctx, failed(err))
	default:
		return true
	}
	return false
}

// failed adds the words that Nomad uses.
func failed(err error) error {
	//lint:ignore ST1005 the text is that of Nomad
	return fmt.Errorf("Template failed: %w", err)
}

// templateError is the error of a template. It is final.
type templateError struct{ err error }

// Error returns the error with the name of the template.
func (e *templateError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *templateError) Unwrap() error { return e.err }

// describeFailure adds the name of the template, and the line, to a failure.
func describeFailure(f *failure, entries []*entry) error {
	name := "templates"
	if f.Template >= 0 && f.Template < len(entries) {
		name = entries[f.Template].String()
	}
	if f.Line > 0 {
		name += fmt.Sprintf(", line %d", f.Line)
	}
	return failed(fmt.Errorf("%s: %w", name, f))
}

// fail reports an error to Begin, or kills the task.
func (r *run) fail(ctx context.Context, err error) {
	r.mu.Lock()
	begun := r.begun
	if !begun {
		select {
		case <-r.first: // the first render has ended, and Begin has not seen it
		default:
		}
		r.first <- err
	}
	r.mu.Unlock()
	if begun {
		r.kill(ctx, err.Error())
	}
}

// kill kills the task for a reason.
func (r *run) kill(ctx context.Context, reason string) {
	err := r.t.deps.Task.Kill(ctx, &nomad.TaskEvent{Type: nomad.TaskKilling, FailsTask: true, KillReason: reason})
	if err != nil && ctx.Err() == nil {
		r.t.deps.Log.Error("kill task after a failed template", "err", err)
	}
}

// succeed reports the first complete render.
func (r *run) succeed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.complete:
		return
	default:
	}
	close(r.complete)
	if !r.begun {
		r.first <- nil
	}
}
