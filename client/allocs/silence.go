package allocs

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// silenceEvery is the interval of the checks for allocations that have been without a server for too long.
const silenceEvery = time.Second

// watchSilence stops and removes the allocations whose group has stop_on_client_after, once no heartbeat has succeeded
// for that long. The servers replace them later. The start of the agent counts as a heartbeat.
func (s *Set) watchSilence(ctx context.Context) error {
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
		if beat := s.cfg.Node.LastBeat(); beat.After(start) {
			last = beat
		}
		s.stopSilent(time.Since(last))
	}
}

// stopSilent removes the allocations that must not run without a server for this long.
func (s *Set) stopSilent(silence time.Duration) {
	for _, e := range s.All() {
		limit := silenceLimit(e.Runner.Alloc())
		if limit < 0 || silence < limit || !s.condemn(e) {
			continue
		}
		s.log.Warn("stop an allocation: no server has answered for too long", "alloc", e.ID, "limit", limit)
		s.wg.Go(func() { s.remove(e) })
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
