package host

import (
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/logfaults"
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

// reportLogs reports logs that cannot be written, until ctx ends.
func (d *Driver) reportLogs(ctx context.Context, tell func(*drivers.TaskEvent)) {
	w := logfaults.Watcher{Faulty: d.logs.FaultyTasks, Idle: d.idle, Has: d.has, Effect: logfaults.Blocks}
	w.Run(ctx, tell)
}

func (d *Driver) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tasks) == 0
}
