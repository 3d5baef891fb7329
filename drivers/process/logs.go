package process

import (
	"context"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/logfaults"
)

// ReportLogs reports logs that cannot be written, until ctx ends.
func (ts *Tasks) ReportLogs(ctx context.Context, report func(*drivers.TaskEvent)) {
	w := logfaults.Watcher{Faulty: ts.cfg.Supervisor.FaultyTasks, Idle: ts.idle, Has: ts.has, Effect: logfaults.Blocks}
	w.Run(ctx, report)
}

func (ts *Tasks) idle() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.byID) == 0
}

// has reports whether a task belongs to this driver.
func (ts *Tasks) has(id string) bool {
	_, err := ts.state(id)
	return err == nil
}
