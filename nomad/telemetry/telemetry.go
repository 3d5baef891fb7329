// Package telemetry sets the metrics of a server: evaluations, plans, nodes, locks, Raft log and
// jobs.
//
// Run periodically sets the gauges whose number does not depend on the number of jobs. Jobs,
// Blocked and Waiting set those of jobs and evaluations. The agent calls them only when metrics are
// read, since they are costly in a cluster with many jobs.
//
// The package never writes state and handles no tokens. Run is its only goroutine.
package telemetry

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/every"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// defaultEvery is the default of Config.Every.
const defaultEvery = time.Second

// Log is the Raft log (consensus.Raft).
type Log interface {
	AppliedIndex() uint64
	LastIndex() uint64
}

// Config of a Collector.
type Config struct {
	// Every is the interval of the gauges. Default 1 s.
	Every   time.Duration
	Store   func() *state.Store // the current store: a restore replaces it
	Log     Log
	Broker  *broker.Broker
	Blocked *broker.Blocked
	// Plans, Nodes and Locks return the number of queued plans, tracked nodes and tracked variable
	// locks.
	Plans, Nodes, Locks func() int
}

// Collector sets the gauges of a server.
type Collector struct{ cfg Config }

// New returns a Collector.
func New(cfg Config) *Collector {
	if cfg.Every <= 0 {
		cfg.Every = defaultEvery
	}
	return &Collector{cfg: cfg}
}

// Run sets the gauges in each interval until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	return every.Tick(ctx, c.cfg.Every, c.collect)
}

func (c *Collector) collect() {
	set([]string{"raft", "appliedIndex"}, float64(c.cfg.Log.AppliedIndex()))
	set([]string{"raft", "lastIndex"}, float64(c.cfg.Log.LastIndex()))
	set([]string{"state", "snapshotIndex"}, float64(c.cfg.Store().LatestIndex()))
	set([]string{"nomad", "plan", "queue_depth"}, float64(c.cfg.Plans()))
	set([]string{"nomad", "heartbeat", "active"}, float64(c.cfg.Nodes()))
	set([]string{"variables", "locks", "ttl_timer", "num"}, float64(c.cfg.Locks()))
	c.evaluations()
}

// schedulers are the queues that have gauges even if they are empty.
var schedulers = []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch, nomad.JobTypeCore,
	broker.FailedQueue}

// evaluations sets the gauges of queued evaluations.
func (c *Collector) evaluations() {
	s := c.cfg.Broker.Stats()
	for name, n := range map[string]int{
		"total_ready": s.Ready, "total_unacked": s.Unacked, "total_pending": s.Pending,
		"total_waiting": s.Waiting, "total_cancelable": s.Cancelable,
	} {
		set([]string{"nomad", "broker", name}, float64(n))
	}
	for _, queue := range schedulers {
		set([]string{"nomad", "broker", queue, "ready"}, float64(s.ByScheduler[queue].Ready))
		set([]string{"nomad", "broker", queue, "unacked"}, float64(s.ByScheduler[queue].Unacked))
	}
	blocked := c.cfg.Blocked.Stats()
	set([]string{"nomad", "blocked_evals", "total_blocked"}, float64(blocked.Blocked))
	set([]string{"nomad", "blocked_evals", "total_escaped"}, float64(blocked.Escaped))
	set([]string{"nomad", "blocked_evals", "total_quota_limit"}, float64(blocked.Quota))
}

// set sets a gauge without labels.
func set(key []string, val float64) { metrics.SetGauge(slices.Clip(key), float32(val)) }
