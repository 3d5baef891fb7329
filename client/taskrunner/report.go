package taskrunner

import (
	"context"
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// hear makes events of what the driver says of this start, until the attempt ends.
func (r *Runner) hear(id string) {
	if r.cfg.Events == nil {
		return
	}
	try := r.try
	try.deaf = r.cfg.Events.Listen(id, func(e *drivers.TaskEvent) { r.heard(try, e) })
}

// heard takes one thing that the driver says. It does not wait.
func (r *Runner) heard(try *attempt, e *drivers.TaskEvent) {
	kind := e.Type
	if kind == "" {
		kind = nomad.TaskDriverMessage
	}
	at := e.At
	if at.IsZero() {
		at = time.Now()
	}
	r.Emit(&nomad.TaskEvent{Type: kind, Time: at.UnixNano(), DriverMessage: e.Message,
		Details: maps.Clone(e.Details), FailsTask: e.Kill})
	if !e.Kill {
		return
	}
	try.run(func(ctx context.Context) {
		// It returns when ctx ends, which is when the process has.
		_ = r.Kill(ctx, &nomad.TaskEvent{Type: nomad.TaskKilling, FailsTask: true, KillReason: e.Message})
	})
}
