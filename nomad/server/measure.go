package server

import (
	"context"
	"time"

	"github.com/hashicorp/go-metrics"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/nomad/rpc/meter"
	"github.com/open-nomad/open-nomad/nomad/telemetry"
)

// newMeter returns the meter of the RPCs.
func (s *Server) newMeter() *meter.Meter {
	m := s.cfg.Metrics
	return meter.ForServer(meter.Config{Every: m.Every, NoIdentities: m.NoIdentities, AllocIDs: m.Allocs})
}

// measure updates gauges and counters until ctx ends.
func (s *Server) measure(ctx context.Context) error {
	collector := telemetry.New(telemetry.Config{
		Every: s.cfg.Metrics.Every, Store: s.fsm.State, Log: s.raft, Broker: s.broker, Blocked: s.blocked,
		Plans: s.plans.Queued, Nodes: s.beats.Active, Locks: s.locks.Active,
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return collector.Run(ctx) })
	group.Go(func() error { return s.calls.Run(ctx) })
	return group.Wait()
}

// measureLeader adds the duration of a leadership step to its metric.
func measureLeader(step string, begun time.Time) {
	metrics.MeasureSince([]string{"nomad", "leader", step}, begun)
}

// JobGauges sets the gauges of jobs and evaluations on the leader. Other servers set none, so
// that the sum over all servers counts each job once.
func (s *Server) JobGauges(set telemetry.Gauge) {
	if !s.leading.isOpen() {
		return
	}
	jobs := telemetry.Jobs
	if s.cfg.Metrics.NoDispatched {
		jobs = telemetry.JobsNotDispatched
	}
	jobs(s.fsm.State().Snapshot(), set)
	telemetry.Blocked(s.blocked.Evals(), set)
	telemetry.Waiting(s.broker.Delayed(), set)
}
