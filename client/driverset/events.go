package driverset

import (
	"context"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Listen has f called, which is quick, for what a driver says of a task, until stop is
// called; f is not running any more when that returns. What is said of a task that
// nobody listens for is dropped.
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

// listener is a pointer, so that one can be told from its successor.
type listener struct{ f func(*drivers.TaskEvent) }

// told hands an event to who listens for its task.
func (s *Set) told(e *drivers.TaskEvent) {
	s.listenMu.RLock()
	defer s.listenMu.RUnlock()
	if l := s.listeners[e.TaskID]; l != nil {
		l.f(e)
	}
}

// report has a driver tell of its tasks until ctx is done. A driver that can't goes on
// without.
func (s *Set) report(ctx context.Context, name string, r drivers.Reporter) {
	if err := r.Report(ctx, s.told); err != nil && ctx.Err() == nil {
		s.log.Error("the driver tells no more of its tasks", "driver", name, "err", err)
	}
}
