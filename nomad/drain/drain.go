// Package drain moves the allocations away from draining nodes.
//
//	draining ──service and batch allocations──▶ marked, max_parallel at a time ──all ended──┐
//	   │                                                                                    ▼
//	   ├──deadline──▶ all marked ──▶ complete ◀──all ended── system allocations marked ◀────┤
//	   └──operator──▶ canceled           ▲                                                  │
//	                                     └────────────none, or ignored──────────────────────┘
//
// A mark is the desired transition Migrate of an allocation, written with an evaluation of its job. The
// scheduler then stops the allocation and places its replacement. This package does neither. The rules:
//
//   - A service allocation is marked when enough others of its group are healthy: max_parallel of the
//     migrate block is how many may be missing. With max_parallel 0 it stays until the deadline.
//   - A batch or sysbatch allocation may finish. At the deadline it is stopped. The scheduler places a batch allocation
//     again, and waits if no other node has room.
//   - A system allocation, and one that runs a CSI plugin, stays until the others have ended. The plugin also stays until
//     the node has unmounted its volumes: package claims records that.
//     With ignore_system_jobs, system allocations are not marked.
//   - At the deadline, all remaining allocations are marked and the drain is complete.
//
// A complete drain leaves the node ineligible.
//
// The drainer runs on the leader only and keeps nothing in memory: a new leader reads the same state
// and takes the same steps. Its one goroutine waits on watches of state and for the next deadline.
package drain

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// pace is the minimum interval between two steps, so that one step handles many changes.
	pace = 250 * time.Millisecond
	// retryAfter is the delay after a failed write.
	retryAfter = time.Second
	// maxWait limits the wait for a deadline, because the clock of the host may be set.
	maxWait = time.Minute
)

// Config of a Drainer. All fields are required.
type Config struct {
	Store func() *state.Store // the current store: a restore replaces it
	Raft  consensus.Log
	Log   *slog.Logger
}

// Drainer drains nodes.
type Drainer struct{ cfg Config }

// New returns a Drainer.
func New(cfg Config) *Drainer { return &Drainer{cfg: cfg} }

// Run drains nodes until ctx ends.
func (d *Drainer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		store := d.cfg.Store()
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		now := time.Now()
		snap := store.Snapshot()
		s := plan(snap, ws, now)
		switch err := d.take(ctx, snap, s, now); {
		case err != nil && ctx.Err() == nil:
			d.cfg.Log.Warn("drain nodes", "err", err)
			state.Wait(ctx, memdb.NewWatchSet(), time.Now().Add(retryAfter))
			continue
		case s.empty():
			state.Wait(ctx, ws, s.until(now))
		}
		state.Wait(ctx, memdb.NewWatchSet(), time.Now().Add(pace))
	}
	return ctx.Err()
}
