package host

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Report implements drivers.Reporter: events of the driver, and logs that cannot be written. It
// continues with the next process of the program.
func (d *Driver) Report(ctx context.Context, tell func(*drivers.TaskEvent)) error {
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() { d.reportLogs(ctx, tell) })
	for {
		p, err := d.live(ctx)
		if err != nil {
			return err
		}
		if err := d.events(ctx, p, tell); wire.IsUnimplemented(err) {
			d.log.Debug("the driver reports no events")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.runner.ended: // a stream that ended earlier is not opened again
		}
	}
}

func (d *Driver) events(ctx context.Context, p *process, tell func(*drivers.TaskEvent)) error {
	stream, err := p.driver.TaskEvents(ctx, &proto.TaskEventsRequest{})
	for err == nil {
		var m *proto.DriverTaskEvent
		if m, err = stream.Recv(); err == nil && d.has(m.GetTaskId()) {
			tell(wire.DecodeEvent(m))
		}
	}
	return err
}

// logsEvery is the interval of queries for faulty logs, which are made only while the driver has tasks.
// They also have a supervisor that ended started again.
const logsEvery = 5 * time.Second

// stream is a stream of a task.
type stream struct{ task, name string }

// reportLogs reports when a log cannot be written, and when it can be again.
func (d *Driver) reportLogs(ctx context.Context, tell func(*drivers.TaskEvent)) {
	every := time.NewTicker(logsEvery)
	defer every.Stop()
	reported := map[stream]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		faulty, err := d.faults(ctx)
		if err != nil {
			continue // the next round tries again
		}
		for s, reason := range faulty {
			if !reported[s] {
				reported[s] = true
				tell(s.event(fmt.Sprintf("the log of %s cannot be written: %s: the task blocks when its pipe is full", s.name, reason)))
			}
		}
		maps.DeleteFunc(reported, func(s stream, _ bool) bool {
			if _, still := faulty[s]; still {
				return false
			}
			if d.has(s.task) {
				tell(s.event("the log of " + s.name + " is writable again"))
			}
			return true
		})
	}
}

// faults returns the faulty streams of the driver's tasks, with the reasons.
func (d *Driver) faults(ctx context.Context) (map[stream]string, error) {
	d.mu.Lock()
	idle := len(d.tasks) == 0
	d.mu.Unlock()
	if idle {
		return nil, nil
	}
	tasks, err := d.logs.FaultyTasks(ctx)
	out := map[stream]string{}
	for _, t := range tasks {
		for name, reason := range t.LogFaults {
			if d.has(t.ID) && t.Exit == nil {
				out[stream{t.ID, name}] = reason
			}
		}
	}
	return out, err
}

func (s stream) event(message string) *drivers.TaskEvent {
	return &drivers.TaskEvent{TaskID: s.task, Type: "Task Logs", At: time.Now(), Message: message, Details: map[string]string{"stream": s.name}}
}
