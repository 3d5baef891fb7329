// Package deploy carries rolling updates through. For each active deployment it
// watches the health that clients report for its allocations, and
//
//   - makes an evaluation when one became healthy, so that the scheduler places
//     the next batch (how many is the scheduler's business: max_parallel);
//   - marks unhealthy ones for replacement while there is time for progress;
//   - ends the deployment.
//
// The statuses of a deployment, as far as this package moves them:
//
//	running ──complete──▶ successful
//	running ──unhealthy──▶ failed
//	running ──deadline──▶ failed
//	running ──fail──▶ failed
//	running ──pause──▶ paused ──resume──▶ running
//	paused ──fail──▶ failed
//
// The scheduler creates and cancels deployments. A paused one stands still: its
// deadlines count again from what state says when it is resumed.
//
// A group makes progress when one of its allocations becomes healthy; state then
// moves RequireProgressBy. A deployment with unhealthy allocations fails at once
// if its group has no progress deadline, or if one failed and its reschedule policy
// allows no other; otherwise when the deadline passes.
//
// The watcher runs on the leader only: one goroutine that looks for deployments
// and one for each that is active. They wait on watches of state, never by polling.
package deploy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// retryAfter is the wait after a write failed.
const retryAfter = time.Second

// Committer writes the Raft log.
type Committer interface {
	Apply(ctx context.Context, t nomad.MessageType, payload any) (resp any, index uint64, err error)
}

// Config of a Watcher.
type Config struct {
	Store func() *state.Store // the store of now: a restore replaces it
	Raft  Committer
	Log   *slog.Logger
}

// Watcher carries deployments through.
type Watcher struct {
	cfg Config
}

// New returns a Watcher.
func New(cfg Config) *Watcher { return &Watcher{cfg: cfg} }

// Run watches the active deployments until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	r := &round{ended: make(chan string), watched: make(map[string]bool)}
	r.begin = func(id string) {
		r.watched[id] = true
		all.Go(func() {
			w.follow(ctx, id)
			select {
			case r.ended <- id:
			case <-ctx.Done():
			}
		})
	}
	for ctx.Err() == nil {
		ws := memdb.NewWatchSet()
		w.look(ws, r)
		w.await(ctx, ws, r)
	}
	return ctx.Err()
}

// round is what the watcher knows of deployments: those that it follows, and up to
// which change of which store it has looked.
type round struct {
	watched map[string]bool
	ended   chan string
	begin   func(id string)
	store   *state.Store
	looked  uint64
}

// look follows the active deployments among those that changed since the last look.
func (w *Watcher) look(ws memdb.WatchSet, r *round) {
	store := w.cfg.Store()
	if store != r.store {
		r.store, r.looked = store, 0
	}
	ws.Add(store.Abandoned())
	for d := range store.Snapshot().DeploymentsSince(ws, r.looked) {
		if d.Active() && !r.watched[d.ID] {
			r.begin(d.ID)
		}
		r.looked = max(r.looked, d.ModifyIndex)
	}
}

// await waits for a change of a deployment. Meanwhile it forgets those that ended,
// unless one is active again.
func (w *Watcher) await(ctx context.Context, ws memdb.WatchSet, r *round) {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := ws.WatchCh(wait)
	for {
		select {
		case id := <-r.ended:
			delete(r.watched, id)
			if d := w.cfg.Store().Snapshot().Deployment(nil, id); d != nil && d.Active() {
				r.begin(id)
			}
		case <-changed:
			return
		}
	}
}

// follow carries one deployment through, to its end or that of ctx.
func (w *Watcher) follow(ctx context.Context, id string) {
	var p progress
	for ctx.Err() == nil {
		ws := memdb.NewWatchSet()
		store := w.cfg.Store()
		ws.Add(store.Abandoned())
		snap := store.Snapshot()
		d := snap.Deployment(ws, id)
		if d == nil || !d.Active() {
			return
		}
		act, next := p.decide(d, snap.AllocsByDeployment(ws, id), time.Now())
		if act == nil {
			watch(ctx, ws, next)
			continue
		}
		if err := w.do(ctx, snap, d, act); err != nil {
			if ctx.Err() == nil {
				w.cfg.Log.Warn("carry deployment through", "deployment", id, "job", d.JobID, "err", err)
			}
			pause, cancel := context.WithTimeout(ctx, retryAfter)
			<-pause.Done()
			cancel()
			continue
		}
		p.did(act)
	}
}

// watch waits for a change, for the time until (zero is never) or the end of ctx.
func watch(ctx context.Context, ws memdb.WatchSet, until time.Time) {
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	// Its error says which of the three it was; the caller looks for itself.
	_ = ws.WatchCtx(ctx)
}
