package claims

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// pace is the minimum time between two looks at the state, so that one look handles many changes. It is rest times the
	// duration of a look if that is longer. A look at 20,000 claims on 1,000 volumes takes about 10 ms: it reads only the
	// volumes that have changed, and those with claims to release.
	pace = 50 * time.Millisecond
	rest = 4
	// atOnce limits the attempts at once, except those that take longer than slowAfter.
	atOnce    = 64
	slowAfter = 5 * time.Second
	// firstDelay and lastDelay limit the delay of a repeated attempt, and soonest that of one after a change.
	firstDelay = time.Second
	lastDelay  = time.Minute
	soonest    = time.Second
)

// volumeKey identifies a volume.
type volumeKey struct{ namespace, id string }

// run is the memory of one term of leadership. Its goroutine is that of Run.
type run struct {
	*Watcher
	attempts sync.WaitGroup
	volumes  map[volumeKey]*volume
	unended  map[volumeKey]*unended
}

// unended is a volume without ended claims. It need not be read again until it or one of its allocations changes.
type unended struct {
	csi    *csi.Volume
	allocs memdb.WatchSet
}

// volume is a volume with ended claims.
type volume struct {
	claims  map[string]*claim // by allocation
	begun   time.Time         // of the attempt in progress; zero without one
	index   uint64            // of the last change that is known, or that an attempt made
	missing time.Time         // since when its plugin does not exist; zero if it exists
}

// claim is an ended claim.
type claim struct {
	seen  circumstances
	delay backoff.Backoff
	due   time.Time  // of the next attempt
	tried time.Time  // end of the last attempt
	asked []*request // answered by the attempt in progress
}

// outcome is the end of an attempt.
type outcome struct {
	key   volumeKey
	alloc string
	index uint64 // of the last log entry
	err   error  // nil if the claim is freed
}

// Run releases claims until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	r := &run{Watcher: w, volumes: map[volumeKey]*volume{}, unended: map[volumeKey]*unended{}}
	ctx, stop := context.WithCancel(ctx)
	defer w.refuse()
	defer func() {
		stop()
		r.attempts.Wait()
		r.settle()
		for _, v := range r.volumes {
			v.forget(apierror.ErrNoLeader, func(string) bool { return true })
		}
	}()
	w.lead()
	for ctx.Err() == nil {
		store := w.cfg.Store()
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		ws.Add(w.woken)
		w.woken.Clear()
		r.settle()
		snap, now := store.Snapshot(), time.Now()
		r.look(snap, ws, now)
		r.answer(snap, now)
		r.begin(ctx, now)
		took := time.Since(now)
		state.Wait(ctx, ws, r.next(now))
		state.Wait(ctx, memdb.NewWatchSet(), time.Now().Add(max(pace, rest*took)))
	}
	return ctx.Err()
}

// settle records the outcomes of attempts that have ended.
func (r *run) settle() {
	r.mu.Lock()
	outcomes := r.outcomes
	r.outcomes = nil
	r.mu.Unlock()
	for _, o := range outcomes {
		v := r.volumes[o.key]
		v.begun, v.index = time.Time{}, max(v.index, o.index)
		c := v.claims[o.alloc]
		if c == nil {
			continue
		}
		c.tried = time.Now()
		c.due = c.tried.Add(c.delay.NextJitter())
		c.reply(o.err)
	}
}

// reply answers the calls of Release that wait for an attempt.
func (c *claim) reply(err error) {
	for _, req := range c.asked {
		req.done <- err
	}
	c.asked = nil
}

// forget removes the claims for which gone returns true, and replies to the calls of Release that wait for them.
func (v *volume) forget(err error, gone func(alloc string) bool) {
	maps.DeleteFunc(v.claims, func(alloc string, c *claim) bool {
		if !gone(alloc) {
			return false
		}
		c.reply(err)
		return true
	})
}

// look finds the ended claims in state. A change of what a claim depends on makes it due.
func (r *run) look(snap *state.Snapshot, ws memdb.WatchSet, now time.Time) {
	found := map[volumeKey]bool{}
	before := r.unended
	r.unended = make(map[volumeKey]*unended, len(before))
	for v := range snap.CSIVolumes(ws) {
		key := volumeKey{v.Namespace, v.ID}
		if kept := before[key].current(v, snap); kept != nil {
			r.unended[key] = kept
			maps.Copy(ws, kept.allocs)
			continue
		}
		found[key] = true
		for _, claims := range []map[string]*csi.Claim{v.ReadClaims, v.WriteClaims} {
			for alloc := range claims {
				snap.Alloc(ws, alloc) // only the watch
			}
		}
		if r.volumes[key] == nil {
			r.volumes[key] = &volume{claims: map[string]*claim{}, index: v.ModifyIndex}
		}
		r.volumes[key].update(&volumeView{snap, ws, v, now}, snap.EndedCSIClaims(v))
	}
	maps.DeleteFunc(r.volumes, func(key volumeKey, v *volume) bool {
		if found[key] || !v.begun.IsZero() {
			return false
		}
		v.forget(nil, func(string) bool { return true }) // the claims do not exist any more
		return true
	})
}

// current returns u if neither the volume nor one of its allocations has changed, else what it is now, or nil if the volume has
// claims to release. u may be nil.
func (u *unended) current(v *csi.Volume, snap *state.Snapshot) *unended {
	if u != nil && u.csi == v && !u.changed() {
		return u
	}
	if len(v.PastClaims) > 0 {
		return nil
	}
	next := &unended{csi: v, allocs: memdb.NewWatchSet()}
	for _, claims := range []map[string]*csi.Claim{v.ReadClaims, v.WriteClaims} {
		for alloc := range claims {
			if a := snap.Alloc(next.allocs, alloc); a == nil || a.ClientTerminalStatus() {
				return nil
			}
		}
	}
	return next
}

// changed reports whether an allocation has changed.
func (u *unended) changed() bool {
	for ch := range u.allocs {
		select {
		case <-ch:
			return true
		default:
		}
	}
	return false
}

// volumeView is a volume in a snapshot.
type volumeView struct {
	snap *state.Snapshot
	ws   memdb.WatchSet
	csi  *csi.Volume
	now  time.Time
}

// update compares the volume with the state.
func (v *volume) update(s *volumeView, ended []*csi.Claim) {
	plugin := s.snap.CSIPlugin(s.ws, s.csi.PluginID)
	switch {
	case plugin != nil:
		v.missing = time.Time{}
	case v.missing.IsZero():
		v.missing = s.now
	}
	if !v.begun.IsZero() {
		return // after the attempt
	}
	touched := s.csi.ModifyIndex > v.index
	v.index = max(v.index, s.csi.ModifyIndex)
	exists := map[string]bool{}
	for _, c := range ended {
		exists[c.AllocationID] = true
		have, seen := v.claims[c.AllocationID], circumstancesOf(s, plugin, c)
		switch {
		case have == nil:
			v.claims[c.AllocationID] = &claim{seen: seen, due: s.now, delay: backoff.Backoff{Min: firstDelay, Max: lastDelay}}
		case touched || have.seen != seen:
			have.seen, have.due = seen, earlier(have.due, have.tried.Add(soonest))
		}
	}
	v.forget(nil, func(alloc string) bool { return !exists[alloc] })
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// begin starts the attempts that are due, within the limit. Each volume has one at a time.
func (r *run) begin(ctx context.Context, now time.Time) {
	free := atOnce - r.fast(now)
	for key, v := range r.volumes {
		if free <= 0 {
			return
		}
		if !v.begun.IsZero() {
			continue
		}
		alloc, c := v.first()
		if c == nil || c.due.After(now) {
			continue
		}
		v.begun = now
		free--
		a := &attempt{Watcher: r.Watcher, key: key, alloc: alloc, pluginless: r.pluginless(v, now)}
		r.attempts.Go(func() { a.report(a.run(ctx)) })
	}
}

// fast returns the number of attempts that count for the limit.
func (r *run) fast(now time.Time) (n int) {
	for _, v := range r.volumes {
		if !v.begun.IsZero() && now.Sub(v.begun) < slowAfter {
			n++
		}
	}
	return n
}

// pluginless reports whether the plugin of a volume does not exist for so long that claims are freed without it.
func (r *run) pluginless(v *volume, now time.Time) bool {
	return !v.missing.IsZero() && now.Sub(v.missing) >= r.cfg.GoneAfter
}

// first returns the claim of the next attempt. Claims that were never tried precede those that failed, so that one that
// fails slowly does not delay them.
func (v *volume) first() (alloc string, first *claim) {
	for id, c := range v.claims {
		if first == nil || cmp.Or(c.compare(first), cmp.Compare(id, alloc)) < 0 {
			alloc, first = id, c
		}
	}
	return alloc, first
}

// compare is negative if c is tried before o.
func (c *claim) compare(o *claim) int { return cmp.Or(c.rank()-o.rank(), c.due.Compare(o.due)) }

func (c *claim) rank() int {
	switch {
	case len(c.asked) > 0:
		return 0
	case c.tried.IsZero():
		return 1
	}
	return 2
}

// next returns the time of the next attempt, zero for never.
func (r *run) next(now time.Time) (at time.Time) {
	full := r.fast(now) >= atOnce
	for _, v := range r.volumes {
		var when time.Time
		if _, c := v.first(); !v.begun.IsZero() && full && now.Sub(v.begun) < slowAfter {
			when = v.begun.Add(slowAfter) // then another attempt may begin
		} else if v.begun.IsZero() && c != nil && (!full || c.due.After(now)) {
			when = c.due
		}
		if !when.IsZero() && (at.IsZero() || when.Before(at)) {
			at = when
		}
	}
	return at
}
