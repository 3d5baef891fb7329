package server

import (
	"context"

	"github.com/open-nomad/open-nomad/internal/wake"
)

// purges wakes disconnectPurged if nodes were purged whose connections may still be open.
type purges struct{ wake.Signal }

// NodesPurged implements fsm.Purger. It never blocks.
func (p purges) NodesPurged([]string) { p.Send() }

// disconnectPurged closes the connections of purged nodes to this server. It runs on every
// server, because nodes connect to any of them.
func (s *Server) disconnectPurged(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.purges.Signal:
		}
		snap := s.fsm.State().Snapshot()
		s.rpc.CloseNodes(func(id string) bool {
			_, purged := snap.Purged(nil, id)
			return purged
		})
	}
}
