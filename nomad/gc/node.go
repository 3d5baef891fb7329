package gc

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// nodes collects nodes that are down and have no live allocations.
func (c *Collector) nodes(ctx context.Context, s *sweep) error {
	var ids []string
	for n := range s.snap.Nodes(nil) {
		since := time.Unix(n.StatusUpdatedAt, 0).UnixNano()
		if n.TerminalStatus() && s.old(since, c.cfg.NodeAfter) && !s.snap.HoldsWork(n.ID) {
			ids = append(ids, n.ID)
		}
	}
	return c.inBatches(ids, "nodes", func(batch []string) error {
		req := &message.NodeBatchDeregisterRequest{NodeIDs: batch, WriteRequest: c.write()}
		return c.cfg.RPC.Call(ctx, "Node.BatchDeregister", req, &message.NodeUpdateResponse{})
	})
}
