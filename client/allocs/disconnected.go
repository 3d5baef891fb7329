package allocs

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/internal/every"
	"github.com/open-nomad/open-nomad/nomad"
)

// disconnectedEvery is the interval of the checks for allocations that have been without a server for too long.
const disconnectedEvery = time.Second

// watchHeartbeats stops and removes the allocations whose group has stop_on_client_after, once no heartbeat has succeeded
// for that long. The servers replace them later. The start of the agent counts as a heartbeat.
func (s *Set) watchHeartbeats(ctx context.Context) error {
	start := time.Now()
	return every.Tick(ctx, disconnectedEvery, func() {
		last := start
		if beat := s.cfg.Node.LastBeat(); beat.After(start) {
			last = beat
		}
		s.stopDisconnected(time.Since(last))
	})
}

// stopDisconnected removes the allocations that must not run without a server for this long.
func (s *Set) stopDisconnected(without time.Duration) {
	for _, e := range s.All() {
		limit := stopAfter(e.Runner.Alloc())
		if limit < 0 || without < limit || !s.markRemoving(e) {
			continue
		}
		s.log.Warn("stop an allocation: no server has answered for too long", "alloc", e.ID, "limit", limit)
		s.wg.Go(func() { s.remove(e) })
	}
}

// stopAfter returns stop_on_client_after of the allocation's group, or -1.
func stopAfter(a *nomad.Allocation) time.Duration {
	tg := a.Job.TaskGroup(a.TaskGroup)
	if tg == nil || tg.Disconnect == nil || tg.Disconnect.StopOnClientAfter == nil {
		return -1
	}
	return *tg.Disconnect.StopOnClientAfter
}
