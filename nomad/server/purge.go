package server

import "context"

// purges holds a value while nodes were purged whose connections may be open still.
type purges chan struct{}

// NodesPurged implements fsm.Purger. It never waits.
func (p purges) NodesPurged([]string) {
	select {
	case p <- struct{}{}:
	default: // the next pass closes the connections of these nodes too
	}
}

// disconnectPurged closes the connections that purged nodes have to this server. It runs
// on every server: each has the nodes that connected to it.
func (s *Server) disconnectPurged(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.purges:
		}
		snap := s.fsm.State().Snapshot()
		s.rpc.CloseNodes(func(id string) bool {
			_, purged := snap.Purged(nil, id)
			return purged
		})
	}
}
