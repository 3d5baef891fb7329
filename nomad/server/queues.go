package server

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"
)

// followPause empties the queues of evaluations while the scheduler configuration pauses them, and
// loads them again afterwards. It runs on the leader, and only one at a time.
//
//	open ──pause_eval_broker = true──▶ closed ──false──▶ open, loaded from state
//
// While they are closed, no worker gets an evaluation and every plan is rejected. New evaluations are
// only stored.
func (s *Server) followPause(ctx context.Context) error {
	for {
		before := s.broker.Enabled()
		changed := s.setQueues()
		if after := s.broker.Enabled(); after != before {
			s.log.Info("switched the evaluation broker", "enabled", after)
		}
		if err := changed.WatchCtx(ctx); err != nil {
			return err
		}
	}
}

// setQueues opens or closes the queues by the scheduler configuration. It returns the watch set of the
// configuration.
func (s *Server) setQueues() memdb.WatchSet {
	ws := memdb.NewWatchSet()
	_, cfg := s.fsm.State().Snapshot().SchedulerConfig(ws)
	paused := cfg != nil && cfg.PauseEvalBroker
	switch open := s.broker.Enabled(); {
	case paused && open:
		s.closeQueues()
	case !paused && !open:
		s.openQueues()
	}
	return ws
}

// openQueues enables the queues and loads the evaluations of state. The observer adds those that are
// written after the snapshot.
func (s *Server) openQueues() {
	s.broker.Enable()
	s.blocked.Enable()
	snap := s.fsm.State().Snapshot()
	s.observer.Restore(snap.Index(), snap.Evals(nil))
}

func (s *Server) closeQueues() {
	s.blocked.Disable()
	s.broker.Disable()
}
