package reconcile

import (
	"context"
	"reflect"
	"slices"
	"time"
)

// removeWait limits Remove.
const removeWait = time.Second

// Set replaces the services of an owner. It does not wait. New and changed services are registered first, then the
// others are removed. A service that is set again without a change is not registered again.
func (r *Reconciler) Set(owner string, services []*Service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.owners[owner]
	ids := make([]string, 0, len(services))
	for _, s := range services {
		ids = append(ids, s.Registration.ID)
		r.wantService(owner, s)
	}
	if len(ids) > 0 {
		r.owners[owner] = ids
	} else {
		delete(r.owners, owner)
	}
	for _, id := range before {
		if i := r.items[id]; i != nil && i.owner == owner && !slices.Contains(ids, id) {
			r.unwant(i)
			i.after = true
		}
	}
	r.wake.Send()
}

// wantService makes a service wanted. The caller holds mu.
func (r *Reconciler) wantService(owner string, s *Service) {
	i := r.items[s.Registration.ID]
	if i == nil {
		i = &item{id: s.Registration.ID, presence: r.presenceOf(s.Registration.ID)}
		r.items[i.id] = i
	}
	i.owner = owner
	if i.want != nil && reflect.DeepEqual(i.want.Registration, s.Registration) {
		i.want, i.last = s, s // Token may be another function
		return
	}
	switch {
	case i.want == nil && i.version == 0 && i.presence != absent:
		i.need = compare
		r.syncSoon()
	case i.need != compare:
		i.need = change
	}
	i.attempted() // of a removal, which ends
	r.touch(i)
	i.version++
	r.wantUpdates(i, i.last, s)
	i.want, i.last, i.after, i.fresh, i.gone = s, s, false, true, time.Time{}
	i.registered, i.failures, i.err, i.retryAt = false, 0, nil, time.Time{}
	i.missing, i.surplus = nil, nil
	i.sidecar = i.sidecar || hasSidecar(s)
}

// presenceOf returns what the last list has of a service that was not wanted. The caller holds mu.
func (r *Reconciler) presenceOf(id string) presence {
	if !r.listed {
		return unknown
	}
	if r.others[id] {
		return present
	}
	return absent
}

// unwant makes a service one that has to be removed. The caller holds mu.
func (r *Reconciler) unwant(i *item) {
	r.dropUpdates(i, i.last)
	r.touch(i)
	i.version++
	i.want, i.need, i.override, i.missing, i.surplus, i.fresh = nil, settled, nil, nil, nil, false
	i.registered, i.failures, i.reported, i.err, i.retryAt = false, 0, false, nil, time.Time{}
	if i.cancel != nil {
		i.cancel()
	} else if i.presence == absent {
		delete(r.items, i.id)
	}
}

// Remove removes the services of an owner. It waits until Consul has acknowledged this or the attempt has failed, but
// no longer than ctx and one second, and reports whether Consul has. While Consul has never answered, it does not wait.
// Run tries again in any case.
func (r *Reconciler) Remove(ctx context.Context, owner string) bool {
	waits := r.drop(owner)
	timer := time.NewTimer(removeWait)
	defer timer.Stop()
	for _, w := range waits {
		select {
		case <-w:
		case <-ctx.Done():
		case <-timer.C:
			timer.Reset(0) // for the others
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.items {
		if i.owner == owner && i.want == nil && i.presence != absent {
			return false
		}
	}
	return true
}

// Drop removes the services of an owner and does not wait.
func (r *Reconciler) Drop(owner string) { r.drop(owner) }

// drop makes the services of an owner removed at once, and returns the channels that are closed after the attempts.
func (r *Reconciler) drop(owner string) (waits []<-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, owner)
	for _, i := range r.items {
		if i.owner != owner {
			continue
		}
		if i.want != nil {
			r.unwant(i)
			i.urgent = true
		}
		i.after = false
		if i.presence == absent && !i.busy || !r.running || !r.answered {
			continue
		}
		if i.urgent && i.done == nil {
			i.done = make(chan struct{})
		}
		if i.done != nil {
			waits = append(waits, i.done)
		}
	}
	r.wake.Send()
	return waits
}

// States returns the states of an owner's services, in the order of Set.
func (r *Reconciler) States(owner string) (out []State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.owners[owner] {
		if i := r.items[id]; i != nil && i.want != nil && i.owner == owner {
			s := i.state()
			if s.Err == nil {
				s.Err = r.listErr // whether Consul still has it is unknown
			}
			out = append(out, s)
		}
	}
	return out
}

// Refresh lists the services of Consul now, and repeats failed requests now: the settings of the connection have changed. It
// does not wait.
func (r *Reconciler) Refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh = r.syncing
	r.syncAt = time.Now()
	r.asking.Reset()
	for _, i := range r.items {
		i.retryAt = time.Time{}
	}
	r.wake.Send()
}
