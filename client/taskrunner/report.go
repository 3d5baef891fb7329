package taskrunner

import (
	"context"
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// listenEvents turns the driver's events of this start into task events until the attempt ends.
func (r *Runner) listenEvents(id string) {
	if r.cfg.Events == nil {
		return
	}
	try := r.try
	try.unlisten = r.cfg.Events.Listen(id, func(e *drivers.TaskEvent) { r.driverEvent(try, e) })
}

// driverEvent handles one event of the driver. It does not wait.
func (r *Runner) driverEvent(try *attempt, e *drivers.TaskEvent) {
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
		// The error is that of ctx, which ends with the process.
		_ = r.Kill(ctx, &nomad.TaskEvent{Type: nomad.TaskKilling, FailsTask: true, KillReason: e.Message})
	})
}
