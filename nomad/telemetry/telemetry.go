// Package telemetry measures a server: its evaluations, plans, nodes, locks, log and jobs.
//
// Run sets, once per interval, the gauges whose number does not grow with the number of jobs.
// Jobs, Blocked and Waiting set those of jobs and evaluations. The agent calls them when metrics
// are read: a cluster with many jobs pays for them only then, and nothing is kept of them.
//
// It writes nothing to state and knows no token. Run is its only goroutine.
package telemetry

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// defaultEvery is the interval of a Config that has none.
const defaultEvery = time.Second

// Log is the Raft log (consensus.Raft).
type Log interface {
	AppliedIndex() uint64
	LastIndex() uint64
}

// Config of a Collector.
type Config struct {
	// Every is how often gauges are set; 0 is 1 s.
	Every   time.Duration
	Store   func() *state.Store // the store of now: a restore replaces it
	Log     Log
	Broker  *broker.Broker
	Blocked *broker.Blocked
	// Plans, Nodes and Locks count the plans that wait, the nodes whose heartbeat is due and the
	// locks of variables.
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
	tick := time.NewTicker(c.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			c.collect()
		}
	}
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

// schedulers are the queues of evaluations that are shown even when they are empty.
var schedulers = []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch, nomad.JobTypeCore, broker.FailedQueue}

// evaluations sets the gauges of the evaluations that wait.
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
