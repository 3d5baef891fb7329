package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/open-nomad/open-nomad/internal/render"
)

// content writes the text of a template.
func (r *run) content(e *entry, body io.Reader, size int) error {
	changed, err := r.write(e, body, size)
	switch {
	case errors.Is(err, errShort):
		return err
	case err != nil && !r.isBegun():
		return &writeError{fmt.Errorf("%v: %w", e, err)}
	case err != nil:
		// The last content stays. It is the task that can put something in the way.
		r.report.message(fmt.Sprintf("%v: %v", e, err))
		return nil
	}
	if changed && r.isBegun() {
		r.pending.add(e)
	}
	return nil
}

// writeError is the error of a file that cannot be written.
type writeError struct{ err error }

// Error returns the name of the template and the cause.
func (e *writeError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *writeError) Unwrap() error { return e.err }

// frame handles the frames other than contents.
func (r *run) frame(ctx context.Context, f *render.Frame, entries []*entry) error {
	switch f.Kind {
	case render.KindPass:
		var p render.Pass
		if err := f.Decode(&p); err != nil {
			return err
		}
		r.passed(ctx, p, entries)
	case render.KindMissing:
		var m render.Missing
		if err := f.Decode(&m); err != nil {
			return err
		}
		r.report.missing(m)
	case render.KindOutage:
		var o render.Outage
		if err := f.Decode(&o); err != nil {
			return err
		}
		effect := "The task waits for the next successful read"
		if r.isBegun() {
			effect = "The last content stays until the next successful read"
		}
		r.report.outage(o, effect)
	case render.KindRecovered:
		r.report.recovered()
	}
	return nil
}

// passed handles the end of a pass.
func (r *run) passed(ctx context.Context, p render.Pass, entries []*entry) {
	r.report.alive()
	if p.Complete {
		for i, e := range entries {
			k := static
			if slices.Contains(p.Live, i) {
				k = live
			}
			r.t.keep(e.hash, k)
		}
		r.succeed()
	}
	if r.pending.hasEnv() {
		r.setEnv(ctx)
	}
	r.pending.release()
}

// setEnv sets the variables for later starts.
func (r *run) setEnv(ctx context.Context) {
	env, err := r.environment()
	if err != nil {
		r.kill(ctx, err.Error())
		return
	}
	r.t.deps.Task.SetEnv(Hook, env)
}
