// Package deploy drives rolling updates. For each active deployment it watches the health that
// clients report for its allocations. It never places or stops allocations itself.
//
//   - When an allocation becomes healthy, it creates an evaluation. The scheduler then places the next allocations,
//     at most max_parallel at a time.
//   - Until the progress deadline, it marks unhealthy allocations, so that the scheduler replaces them.
//   - If all groups with canaries have auto_promote and all canaries are healthy, it promotes them.
//   - It ends the deployment. A failed one with auto_revert registers the latest stable version of the job again, if
//     it passes admission with the rights of the author of the failed version.
//
// The status changes that this package makes:
//
//	running ──complete──▶ successful
//	running ──unhealthy──▶ failed
//	running ──deadline──▶ failed
//	running ──fail──▶ failed
//	running ──pause──▶ paused ──resume──▶ running
//	paused ──fail──▶ failed
//	running ──cancel──▶ cancelled
//	paused ──cancel──▶ cancelled
//	blocked ──unblock──▶ successful
//	blocked ──cancel──▶ cancelled
//	blocked ──fail──▶ failed
//	pending ──start──▶ running
//	pending ──cancel──▶ cancelled
//	pending ──fail──▶ failed
//
// Deployments that wait for other regions are blocked or pending. Servers of another build create
// them: a blocked one has completed here.
//
// The scheduler creates and cancels deployments. While a deployment is paused nothing happens.
// State starts new progress deadlines at a pause and at a resume.
//
// A group makes progress when one of its allocations becomes healthy. State then advances RequireProgressBy, the time
// of the group's progress deadline. The deadline begins with the first allocation: until then, the group waits for
// capacity. A deployment with an unhealthy allocation fails at once if its group has no progress deadline, or if the
// reschedule policy allows no replacement. Otherwise it fails at the deadline.
//
// The counter of healthy allocations includes those that ended later. A deployment of a system job, and the promotion
// of canaries, need live ones. An unhealthy allocation of a system job fails its deployment at once, because it is
// never rescheduled.
//
// The watcher runs on the leader only. One goroutine finds deployments, and each active deployment
// has one. They wait on watches of state and never poll.
package deploy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// retryAfter is the delay after a failed write.
const retryAfter = time.Second

// Config of a Watcher.
type Config struct {
	Store func() *state.Store // the current store: a restore replaces it
	Raft  consensus.Log
	Log   *slog.Logger
	// Admission admits the jobs of rollbacks.
	Admission *admission.Admitter
}

// Watcher drives deployments.
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
		w.discover(ws, r)
		w.await(ctx, ws, r)
	}
	return ctx.Err()
}

// round is the state of the watcher: the deployments that it follows, and the index up to which it
// has read the store.
type round struct {
	watched   map[string]bool
	ended     chan string
	begin     func(id string)
	store     *state.Store
	readIndex uint64
}

// discover starts to follow active deployments that changed since the last call.
func (w *Watcher) discover(ws memdb.WatchSet, r *round) {
	store := w.cfg.Store()
	if store != r.store {
		r.store, r.readIndex = store, 0
	}
	ws.Add(store.Abandoned())
	for d := range store.Snapshot().DeploymentsSince(ws, r.readIndex) {
		if d.Active() && !r.watched[d.ID] {
			r.begin(d.ID)
		}
		r.readIndex = max(r.readIndex, d.ModifyIndex)
	}
}

// await waits for a change of a deployment. It removes those that ended, unless they are active
// again.
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

// follow drives one deployment until it or ctx ends.
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
			state.Wait(ctx, ws, next)
			continue
		}
		if err := w.do(ctx, snap, d, act); err != nil {
			if ctx.Err() == nil {
				w.cfg.Log.Warn("update deployment", "deployment", id, "job", d.JobID, "err", err)
			}
			pause, cancel := context.WithTimeout(ctx, retryAfter)
			<-pause.Done()
			cancel()
			continue
		}
		p.record(act)
	}
}
