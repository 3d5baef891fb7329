package client

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// silenceEvery is the interval of the checks for allocations that have been without a server for too long.
const silenceEvery = time.Second

// stopSilent stops and removes the allocations whose group has stop_on_client_after, once no heartbeat has succeeded
// for that long. The servers replace them later. The start of the agent counts as a heartbeat.
func (c *Client) stopSilent(ctx context.Context) error {
	start := time.Now()
	tick := time.NewTicker(silenceEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		last := start
		if ns := c.lastBeat.Load(); ns > start.UnixNano() {
			last = time.Unix(0, ns)
		}
		c.allocs.stopSilent(time.Since(last))
	}
}

// stopSilent removes the allocations that must not run without a server for this long.
func (s *allocSet) stopSilent(silence time.Duration) {
	for _, h := range s.all() {
		limit := silenceLimit(h.runner.Alloc())
		if limit < 0 || silence < limit || !s.condemn(h) {
			continue
		}
		s.log.Warn("stop an allocation: no server has answered for too long", "alloc", h.id, "limit", limit)
		s.wg.Go(func() { s.remove(h) })
	}
}

// silenceLimit returns stop_on_client_after of the allocation's group, or -1.
func silenceLimit(a *nomad.Allocation) time.Duration {
	tg := a.Job.TaskGroup(a.TaskGroup)
	if tg == nil || tg.Disconnect == nil || tg.Disconnect.StopOnClientAfter == nil {
		return -1
	}
	return *tg.Disconnect.StopOnClientAfter
}
