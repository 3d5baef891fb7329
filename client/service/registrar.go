package service

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// removeBudget is how long Remove waits for the servers. A task is stopped after that in any case.
const removeBudget = time.Second

// Servers makes calls with the node's own token.
type Servers interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Registrar keeps the registrations of this node at the servers. Its methods may be called concurrently, also before
// and after Run.
type Registrar struct {
	rpc  Servers
	log  *slog.Logger
	wake chan struct{} // buffered 1: an entry is to be sent

	mu      sync.Mutex
	entries map[string]*entry          // by registration ID
	owners  map[string]map[string]bool // registration IDs by owner
}

// entry is the state of one registration.
type entry struct {
	reg     *nomad.ServiceRegistration // never modified
	sent    bool                       // the servers have acknowledged reg
	leaving bool                       // reg is to be removed
	urgent  bool                       // removed before anything else is sent
	gone    chan struct{}              // closed when the servers have acknowledged the removal
}

// New returns a Registrar without registrations.
func New(rpc Servers, log *slog.Logger) *Registrar {
	return &Registrar{rpc: rpc, log: log, wake: make(chan struct{}, 1),
		entries: map[string]*entry{}, owners: map[string]map[string]bool{}}
}

// Set replaces the registrations of an owner. It does not wait: Run sends new and changed ones, then removes the
// others. Registrations that the servers already have are not sent again.
func (r *Registrar) Set(owner string, regs []*nomad.ServiceRegistration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]bool{}
	for _, reg := range regs {
		next[reg.ID] = true
		r.want(reg)
	}
	for id := range r.owners[owner] {
		if !next[id] {
			r.leave(id, false)
		}
	}
	if len(next) == 0 {
		delete(r.owners, owner)
	} else {
		r.owners[owner] = next
	}
	r.nudge()
}

func (r *Registrar) want(reg *nomad.ServiceRegistration) {
	e := r.entries[reg.ID]
	if e == nil {
		r.entries[reg.ID] = &entry{reg: reg, gone: make(chan struct{})}
		return
	}
	if !e.leaving && e.sent && reflect.DeepEqual(e.reg, reg) {
		return
	}
	// A removal may be under way, so that the registration is sent in any case.
	e.reg, e.sent, e.leaving, e.urgent = reg, false, false, false
}

// leave marks a registration for removal and returns its entry, or nil.
func (r *Registrar) leave(id string, urgent bool) *entry {
	e := r.entries[id]
	if e != nil {
		e.leaving, e.sent = true, false
		e.urgent = e.urgent || urgent
	}
	return e
}

// Drop removes the registrations of an owner and does not wait.
func (r *Registrar) Drop(owner string) { r.drop(owner) }

func (r *Registrar) drop(owner string) []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*entry
	for id := range r.owners[owner] {
		if e := r.leave(id, true); e != nil {
			out = append(out, e)
		}
	}
	delete(r.owners, owner)
	if len(out) > 0 {
		r.nudge()
	}
	return out
}

// Remove removes the registrations of an owner. It waits until the servers have acknowledged this, ctx ends or one
// second has passed, and reports whether they have. Run tries again in any case.
func (r *Registrar) Remove(ctx context.Context, owner string) bool {
	ctx, cancel := context.WithTimeout(ctx, removeBudget)
	defer cancel()
	for _, e := range r.drop(owner) {
		select {
		case <-e.gone:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Resync sends every registration again. The client calls it when the servers may have lost some, such as after a
// partition. The servers write only what they do not have.
func (r *Registrar) Resync() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		e.sent = false
	}
	r.nudge()
}

// Pending returns the number of registrations and removals that the servers have not acknowledged.
func (r *Registrar) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.entries {
		if !e.sent {
			n++
		}
	}
	return n
}

// work is everything that must be sent now, in this order. IDs are sorted.
type work struct {
	urgent  []*nomad.ServiceRegistration // removals that a task waits for
	upserts []*nomad.ServiceRegistration
	removed []*nomad.ServiceRegistration // other removals
}

// take returns what is queued. The entries stay until the servers have acknowledged them.
func (r *Registrar) take() (w work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		switch {
		case e.leaving && e.urgent:
			w.urgent = append(w.urgent, e.reg)
		case e.leaving:
			w.removed = append(w.removed, e.reg)
		case !e.sent:
			w.upserts = append(w.upserts, e.reg)
		}
	}
	for _, list := range [][]*nomad.ServiceRegistration{w.urgent, w.upserts, w.removed} {
		slices.SortFunc(list, func(a, b *nomad.ServiceRegistration) int {
			if a.ID < b.ID {
				return -1
			}
			return 1
		})
	}
	return w
}

// registered records that the servers have the registration, unless it has changed meanwhile.
func (r *Registrar) registered(reg *nomad.ServiceRegistration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[reg.ID]; e != nil && e.reg == reg && !e.leaving {
		e.sent = true
	}
}

// removed records that the servers no longer have the registration, unless it was set again meanwhile.
func (r *Registrar) removed(reg *nomad.ServiceRegistration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[reg.ID]; e != nil && e.reg == reg && e.leaving {
		delete(r.entries, reg.ID)
		close(e.gone)
	}
}

// refused drops a registration that the servers will never accept.
func (r *Registrar) refused(reg *nomad.ServiceRegistration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[reg.ID]; e != nil && e.reg == reg && !e.leaving {
		delete(r.entries, reg.ID)
	}
}

func (r *Registrar) nudge() {
	select {
	case r.wake <- struct{}{}:
	default: // Run has not taken the last one
	}
}
