package service

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad/catalog"
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
	wake map[lane]wake.Signal // an entry is to be sent

	mu      sync.Mutex
	entries map[string]*entry          // by registration ID
	owners  map[string]map[string]bool // registration IDs by owner
	// busy has the registration IDs of the calls that are under way, and whether the entry was changed meanwhile. At most
	// one call about an ID is under way, so that none overtakes an older one.
	busy map[string]bool
}

// lane is one of the two loops that send. An urgent removal never waits for a call about other registrations.
type lane string

const (
	urgent  lane = "urgent"  // removals that a task waits for
	regular lane = "regular" // registrations, and the removals of replaced ones
)

// entry is the state of one registration.
type entry struct {
	reg     *catalog.Registration // never modified
	sent    bool                  // the servers have acknowledged reg
	leaving bool                  // reg is to be removed
	urgent  bool                  // a task waits for the removal
	gone    chan struct{}         // closed when the servers have acknowledged the removal

	// acked is what the servers have, as far as known; nil if a removal or a loss may have changed it.
	acked *catalog.Registration
	quiet time.Time // changes of health are paced since then; see held

	// refused is when the servers refused it, zero if they did not. A change of its health alone is then no reason to send
	// it.
	refused time.Time

	denied bool          // the servers deny it, which is logged
	wait   time.Duration // after the next denial
	retry  time.Time     // not sent before, zero unless denied
}

// lane returns the lane that sends the entry.
func (e *entry) lane() lane {
	if e.leaving && e.urgent {
		return urgent
	}
	return regular
}

// New returns a Registrar without registrations.
func New(rpc Servers, log *slog.Logger) *Registrar {
	return &Registrar{rpc: rpc, log: log, wake: map[lane]wake.Signal{urgent: wake.New(), regular: wake.New()},
		entries: map[string]*entry{}, owners: map[string]map[string]bool{}, busy: map[string]bool{}}
}

// Set replaces the registrations of an owner. It does not wait: Run sends new and changed ones, then removes the
// others. Registrations that the servers already have are not sent again.
func (r *Registrar) Set(owner string, regs []*catalog.Registration) {
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

func (r *Registrar) want(reg *catalog.Registration) {
	e := r.entries[reg.ID]
	if e == nil {
		r.entries[reg.ID] = &entry{reg: reg, gone: make(chan struct{})}
		r.changed(reg.ID)
		return
	}
	if !e.leaving && e.sent && reflect.DeepEqual(e.reg, reg) || e.stillRefused(reg) {
		return
	}
	wait, retry := e.wait, e.retry
	health := e.denied && !e.leaving && sameButHealth(e.reg, reg)
	if e.leaving {
		e.acked = nil // a removal may be under way, so that the registration is sent in any case
	}
	e.reg, e.leaving, e.urgent = reg, false, false
	r.changed(reg.ID)
	if health {
		e.wait, e.retry = wait, retry // a new health does not end a denial
	}
	if _, busy := r.busy[reg.ID]; !busy && e.acked != nil && reflect.DeepEqual(e.acked, reg) {
		e.sent = true // what changed has changed back before it was sent
	}
}

// changed makes an entry due at once, or as soon as the call about it has ended.
func (r *Registrar) changed(id string) {
	e := r.entries[id]
	e.sent, e.wait, e.retry, e.refused = false, 0, time.Time{}, time.Time{}
	if _, ok := r.busy[id]; ok {
		r.busy[id] = true
	}
}

// leave marks a registration for removal and returns its entry, or nil.
func (r *Registrar) leave(id string, urgent bool) *entry {
	e := r.entries[id]
	if e != nil && !e.refused.IsZero() && e.acked == nil {
		delete(r.entries, id) // the servers do not have it
		return nil
	}
	if e != nil && (!e.leaving || urgent && !e.urgent) {
		e.leaving, e.urgent = true, urgent
		r.changed(id)
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
		e.sent, e.acked, e.wait, e.retry = false, nil, 0, time.Time{}
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

// take returns what can be sent now and is selected, sorted by ID, and marks it as under way until done.
func (r *Registrar) take(limit int, selected func(*entry) bool) []*catalog.Registration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*catalog.Registration
	now := time.Now()
	for _, e := range r.entries {
		if _, busy := r.busy[e.reg.ID]; !busy && !e.sent && !now.Before(e.due()) && selected(e) {
			out = append(out, e.reg)
		}
	}
	slices.SortFunc(out, func(a, b *catalog.Registration) int { return strings.Compare(a.ID, b.ID) })
	out = out[:min(len(out), limit)]
	for _, reg := range out {
		r.busy[reg.ID] = false
	}
	return out
}

// done ends a call about registrations. A lane may wait for one that was changed meanwhile.
func (r *Registrar) done(regs []*catalog.Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	for _, reg := range regs {
		changed = changed || r.busy[reg.ID]
		delete(r.busy, reg.ID)
	}
	if changed {
		r.nudge()
	}
}

// registering reports whether a registration has yet to be sent. One that is denied or held does not count.
func (r *Registrar) registering() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if !e.leaving && !e.sent && !e.denied && !e.held() {
			return true
		}
	}
	return false
}

// denial records that the servers deny a registration or its removal, and when it is tried again.
func (r *Registrar) denial(reg *catalog.Registration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[reg.ID]
	if e == nil || r.busy[reg.ID] {
		return
	}
	if !e.denied {
		r.log.Warn("the servers deny an update of a service registration: it is tried again", "alloc", reg.AllocID,
			"service", reg.ServiceName, "removal", e.leaving, "err", err)
	}
	e.denied, e.wait = true, min(max(2*e.wait, againMin), deniedMax)
	e.retry = time.Now().Add(e.wait)
}

// accepted ends a denial.
func (r *Registrar) accepted(e *entry) {
	if e.denied {
		r.log.Info("the servers accept an update of a service registration that they denied", "alloc", e.reg.AllocID,
			"service", e.reg.ServiceName, "removal", e.leaving)
	}
	e.denied, e.wait, e.retry = false, 0, time.Time{}
}

// retryIn returns the time until the lane sends what is denied or held, and false if nothing is.
func (r *Registrar) retryIn(l lane) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next time.Time
	for _, e := range r.entries {
		if due := e.due(); !e.sent && !due.IsZero() && e.lane() == l && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return max(time.Until(next), againMin), !next.IsZero()
}

// registered records that the servers have the registration, unless it has changed meanwhile.
func (r *Registrar) registered(reg *catalog.Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[reg.ID]
	if e == nil || e.leaving {
		return
	}
	e.acknowledge(reg)
	if e.reg == reg {
		r.accepted(e)
		e.sent, e.refused = true, time.Time{}
	}
}

// removed records that the servers no longer have the registration, unless it was set again meanwhile.
func (r *Registrar) removed(reg *catalog.Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[reg.ID]; e != nil && e.reg == reg && e.leaving {
		r.accepted(e)
		delete(r.entries, reg.ID)
		close(e.gone)
	}
}

// refused gives up a registration that the servers will never accept.
func (r *Registrar) refused(reg *catalog.Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[reg.ID]; e != nil && e.reg == reg && !e.leaving {
		e.sent, e.refused = true, time.Now()
	}
}

// nudge wakes both lanes.
func (r *Registrar) nudge() {
	for _, w := range r.wake {
		w.Send()
	}
}
