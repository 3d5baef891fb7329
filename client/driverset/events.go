package driverset

import (
	"context"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Listen calls f for each event of a task, until stop is called. f must return quickly, and is
// not running when stop returns. Events of tasks without a listener are dropped.
func (s *Set) Listen(taskID string, f func(*drivers.TaskEvent)) (stop func()) {
	l := &listener{f: f}
	s.listenMu.Lock()
	defer s.listenMu.Unlock()
	s.listeners[taskID] = l
	return func() {
		s.listenMu.Lock()
		defer s.listenMu.Unlock()
		if s.listeners[taskID] == l {
			delete(s.listeners, taskID)
		}
	}
}

// listener is used by pointer, so that it can be compared with its successor.
type listener struct{ f func(*drivers.TaskEvent) }

// deliver passes an event to the listener of its task.
func (s *Set) deliver(e *drivers.TaskEvent) {
	s.listenMu.RLock()
	defer s.listenMu.RUnlock()
	if l := s.listeners[e.TaskID]; l != nil {
		l.f(e)
	}
}

// report receives a driver's task events until ctx ends. After an error, the driver is used
// without events.
func (s *Set) report(ctx context.Context, name string, r drivers.Reporter) {
	if err := r.Report(ctx, s.deliver); err != nil && ctx.Err() == nil {
		s.log.Error("receive task events of driver", "driver", name, "err", err)
	}
}
