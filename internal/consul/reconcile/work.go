package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
)

// The lanes of requests.
const (
	urgent = iota
	normal
	updating
	lanes
)

// slots are the limits of the lanes. Consul accepts 200 connections of a client by default, also those of templates.
var slots = [lanes]int{urgent: 64, normal: 4, updating: 4}

// job is a request about a service.
type job struct {
	item             *item
	lane             int
	version          uint64
	want, last       *Service
	need             need
	override         *override
	used             string // the service's own token
	replace, sidecar bool
	missing          []*api.AgentServiceCheck
	surplus          []string
}

// registration returns what is registered.
func (j *job) registration() *api.AgentServiceRegistration {
	reg := j.want.Registration
	if j.override == nil || j.need == change {
		return reg
	}
	out := *reg
	out.Tags = j.override.service
	if hasSidecar(j.want) && j.override.sidecar != nil {
		connect, sidecar := *reg.Connect, *reg.Connect.SidecarService
		sidecar.Tags = j.override.sidecar
		connect.SidecarService, out.Connect = &sidecar, &connect
	}
	return &out
}

// dispatch starts the requests that are due, and returns when the next one will be.
func (r *Reconciler) dispatch(ctx context.Context, wg *sync.WaitGroup) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.syncing && !now.Before(r.syncAt) {
		r.syncing = true
		wg.Go(func() { r.sync(ctx) })
	}
	next := earlier(now.Add(syncEvery), r.reportAt)
	if !r.syncing && r.syncAt.Before(next) {
		next = r.syncAt
	}
	for {
		i, lane, at := r.nextItem(now)
		if i == nil {
			next = earlier(next, at)
			break
		}
		jctx, cancel := context.WithCancel(ctx)
		j := r.begin(i, lane, cancel)
		wg.Go(func() { r.work(jctx, j) })
	}
	for {
		u, at := r.nextUpdate(now)
		if u == nil {
			next = earlier(next, at)
			break
		}
		r.inUse[updating]++
		u.busy = true
		copied := *u
		wg.Go(func() { r.send(ctx, u, &copied) })
	}
	return next.Sub(now)
}

// earlier returns the earlier time. A zero b is never.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// nextItem returns the service whose request has to be started, and its lane. Removals are first, the others in the
// order of their last change. Without one, it returns when the next one is due, zero for never. The caller holds mu.
func (r *Reconciler) nextItem(now time.Time) (best *item, lane int, at time.Time) {
	bestRank := 0
	for _, i := range r.items {
		l, rank := r.laneOf(i)
		if l == lanes || r.inUse[l] >= slots[l] {
			continue
		}
		if i.retryAt.After(now) {
			if at.IsZero() || i.retryAt.Before(at) {
				at = i.retryAt
			}
			continue
		}
		if best == nil || rank < bestRank || rank == bestRank && i.touched < best.touched {
			best, lane, bestRank = i, l, rank
		}
	}
	return best, lane, at
}

// laneOf returns the lane of the request that a service needs, lanes for none, and its rank. The caller holds mu.
func (r *Reconciler) laneOf(i *item) (lane, rank int) {
	switch {
	case i.busy || i.want == nil && i.presence == absent:
		return lanes, 0
	case i.want == nil && i.urgent && r.answered:
		return urgent, 0
	case r.listErr != nil || !r.listed:
		return lanes, 0
	case i.want == nil && i.after:
		if r.hasFresh(i.owner) {
			return lanes, 0
		}
		return normal, 3
	case i.want == nil:
		return normal, 0
	case i.need == renew && i.stale:
		return lanes, 0
	case i.need == drift || i.need == change || i.need == renew:
		return normal, 1
	case i.need == settled && len(i.missing)+len(i.surplus) > 0:
		return normal, 2
	}
	return lanes, 0
}

// hasFresh reports whether a service of an owner has not been attempted since Set. The caller holds mu.
func (r *Reconciler) hasFresh(owner string) bool {
	for _, id := range r.owners[owner] {
		if i := r.items[id]; i != nil && i.fresh {
			return true
		}
	}
	return false
}

// begin marks a service as busy. The caller holds mu.
func (r *Reconciler) begin(i *item, lane int, cancel context.CancelFunc) *job {
	r.inUse[lane]++
	i.busy, i.cancel = true, cancel
	r.touch(i)
	return &job{item: i, lane: lane, version: i.version, want: i.want, last: i.last, need: i.need, override: i.override,
		replace: i.presence != absent, sidecar: i.sidecar, missing: i.missing, surplus: i.surplus}
}

// work makes the request of a job.
func (r *Reconciler) work(ctx context.Context, j *job) {
	var err error
	var what string
	switch {
	case j.want == nil:
		what, err = "deregister service", r.deregister(ctx, j)
	case j.need != settled:
		what, err = "register service", r.register(ctx, j)
	default:
		what, err = "register checks", r.repair(ctx, j)
	}
	answer := status(err)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, consul.Redact(err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := j.item
	i.cancel()
	i.busy, i.cancel = false, nil
	r.inUse[j.lane]--
	r.touch(i)
	r.wake.Send()
	if j.want == nil {
		r.deregistered(j, err)
		return
	}
	r.registered(j, err, answer)
}

// deregistered records the end of a removal. The caller holds mu.
func (r *Reconciler) deregistered(j *job, err error) {
	i, now := j.item, time.Now()
	if err == nil {
		i.presence, i.sidecar = absent, hasSidecar(i.want)
	}
	if i.version != j.version { // wanted again
		return
	}
	i.attempted()
	if err != nil {
		count("sync_failure", 1)
		r.failed(i, err, now)
		return
	}
	if i.failures > 0 {
		id, n := i.id, i.failures
		r.later(func() { r.cfg.Log.Info("service of consul deregistered", "service", id, "failures", n) })
	}
	i.gone, i.failures, i.err, i.retryAt = now, 0, nil, time.Time{}
}

// registered records the end of a registration, of a service or of its checks. The caller holds mu.
func (r *Reconciler) registered(j *job, err error, answer int) {
	i, now := j.item, time.Now()
	switch {
	case err == nil:
		i.presence = present
		if j.need != settled {
			i.token = j.used
		}
	case errors.Is(err, errNoToken):
	case answer == 0 && i.presence == absent:
		i.presence = unknown // Consul may have completed it
	}
	if i.version != j.version { // changed or removed in the meantime
		if i.want == nil && i.presence == absent {
			i.attempted()
			delete(r.items, i.id)
		}
		return
	}
	i.fresh = false
	switch {
	case errors.Is(err, errNoToken):
		i.err, i.retryAt = errNoToken, now.Add(retryUnit)
	case err != nil:
		count("sync_failure", 1)
		r.failed(i, err, now)
		if answer == 0 || j.need == settled { // perhaps Consul does not have the service any more
			r.syncSoon()
		}
	default:
		r.recovered(i)
		i.missing, i.surplus = nil, nil
		i.settle(now)
		r.repeatUpdates(i, now)
	}
}

// failed records a failed attempt. The caller holds mu.
func (r *Reconciler) failed(i *item, err error, now time.Time) {
	if i.failures == 0 {
		i.since = now
	}
	i.failures++
	i.err, i.registered, i.retryAt = err, false, now.Add(retryDelay(i.failures))
	if r.listErr == nil {
		r.logFailure(i.failures, "request about a service of consul failed, will retry", "service", i.id, "err", err)
	}
	if i.failures == reportAfter && i.want != nil {
		i.reported = true
		r.report(i.owner, i.state())
	}
}

// logFailure logs the first failure in a row as a warning, and each tenth as an error. The caller holds mu.
func (r *Reconciler) logFailure(n int, text string, args ...any) {
	switch {
	case n == 1:
		r.later(func() { r.cfg.Log.Warn(text, args...) })
	case n%10 == 0:
		r.later(func() { r.cfg.Log.Error(text, append(args, "failures", n)...) })
	}
}

// recovered reports a success that follows reported failures. The caller holds mu, and settles the service.
func (r *Reconciler) recovered(i *item) {
	if !i.reported {
		if id, n := i.id, i.failures; n > 0 {
			r.later(func() { r.cfg.Log.Info("service of consul registered", "service", id, "failures", n) })
		}
		return
	}
	i.reported = false
	s := i.state()
	s.Registered, s.Since, s.Failures, s.Err = true, time.Now(), 0, nil
	r.report(i.owner, s)
}
