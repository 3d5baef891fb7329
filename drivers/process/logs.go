package process

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// logsEvent is the type of the events about logs.
const logsEvent = "Task Logs"

// logsEvery is the interval of queries to the supervisor, which are made only while the driver has
// tasks.
const logsEvery = 5 * time.Second

// logStream is a stream of a task.
type logStream struct{ task, name string }

// ReportLogs reports logs that cannot be written, for example on a full disk, until ctx ends: one
// event when that begins, and one when the log is writable again.
func (ts *Tasks) ReportLogs(ctx context.Context, tell func(*drivers.TaskEvent)) {
	every := time.NewTicker(logsEvery)
	defer every.Stop()
	reported := map[logStream]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		for _, e := range ts.logEvents(ctx, reported) {
			tell(e)
		}
	}
}

// logEvents returns the changes since reported, which it updates.
func (ts *Tasks) logEvents(ctx context.Context, reported map[logStream]bool) []*drivers.TaskEvent {
	ts.mu.Lock()
	idle := len(ts.byID) == 0
	ts.mu.Unlock()
	if idle {
		clear(reported)
		return nil
	}
	faulty, err := ts.Supervisor.FaultyTasks(ctx)
	if err != nil {
		return nil // the next round tries again
	}
	var events []*drivers.TaskEvent
	now := map[logStream]bool{}
	for _, t := range faulty {
		for name, reason := range t.LogFaults {
			s := logStream{t.ID, name}
			now[s] = true
			if reported[s] || t.Exit != nil || !ts.has(t.ID) {
				continue
			}
			reported[s] = true
			events = append(events, s.event(fmt.Sprintf(
				"the log of %s cannot be written: %s: the task blocks when its pipe is full", name, reason)))
		}
	}
	for s := range reported {
		if now[s] {
			continue
		}
		delete(reported, s)
		if ts.has(s.task) {
			events = append(events, s.event("the log of "+s.name+" is writable again"))
		}
	}
	return events
}

// has reports whether a task belongs to this driver.
func (ts *Tasks) has(id string) bool {
	_, err := ts.state(id)
	return err == nil
}

func (s logStream) event(message string) *drivers.TaskEvent {
	return &drivers.TaskEvent{TaskID: s.task, Type: logsEvent, At: time.Now(), Message: message,
		Details: map[string]string{"stream": s.name}}
}
