// Package logfaults reports logs of tasks that cannot be written, for example on a full disk.
//
//	writable ──fault──▶ reported ──no fault──▶ writable, reported again
//
// The supervisor collects the output of tasks, and reports which logs it cannot write. A driver runs a
// Watcher, which asks the supervisor and emits an event for each change. The package starts no
// goroutine.
package logfaults

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Event is the type of the events about logs.
const Event = "Task Logs"

// every is the interval of queries to the supervisor.
const every = 5 * time.Second

// Watcher reports the faulty logs of a driver's tasks. All functions are required.
type Watcher struct {
	// Faulty lists the tasks with faulty logs, also those of other drivers (supervise.Client).
	Faulty func(ctx context.Context) ([]proc.Task, error)
	// Idle reports whether the driver has no tasks. The supervisor is then not asked.
	Idle func() bool
	// Has reports whether the driver has a task.
	Has func(id string) bool
	// Effect says what a fault means for the task. It may be empty.
	Effect string
}

// stream is a stream of a task.
type stream struct{ task, name string }

// Run reports changes until ctx ends: one event when a log cannot be written, and one when it is
// writable again.
func (w *Watcher) Run(ctx context.Context, tell func(*drivers.TaskEvent)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	reported := map[stream]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, e := range w.changes(ctx, reported) {
			tell(e)
		}
	}
}

// changes returns the changes since reported, which it updates.
func (w *Watcher) changes(ctx context.Context, reported map[stream]bool) (events []*drivers.TaskEvent) {
	if w.Idle() {
		clear(reported)
		return nil
	}
	tasks, err := w.Faulty(ctx)
	if err != nil {
		return nil // the next round tries again
	}
	now := map[stream]bool{}
	for _, t := range tasks {
		for name, reason := range t.LogFaults {
			s := stream{t.ID, name}
			now[s] = true
			if reported[s] || t.Exit != nil || !w.Has(t.ID) {
				continue
			}
			reported[s] = true
			text := "the log of " + name + " cannot be written: " + reason
			if w.Effect != "" {
				text += ": " + w.Effect
			}
			events = append(events, s.event(text))
		}
	}
	for s := range reported {
		if now[s] {
			continue
		}
		delete(reported, s)
		if w.Has(s.task) {
			events = append(events, s.event("the log of "+s.name+" is writable again"))
		}
	}
	return events
}

func (s stream) event(message string) *drivers.TaskEvent {
	return &drivers.TaskEvent{TaskID: s.task, Type: Event, At: time.Now(), Message: message, Details: map[string]string{"stream": s.name}}
}

// Blocks is the effect for a task that writes into the pipe that the supervisor reads.
const Blocks = "the task blocks when its pipe is full"
