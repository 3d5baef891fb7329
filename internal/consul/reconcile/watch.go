package reconcile

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
)

// pollEvery is the time between two requests for the statuses of checks.
const pollEvery = time.Second

// watch is a call of Watch. Reconciler.mu guards ended, and poll has the rest.
type watch struct {
	owner   string
	changed func([]Status)
	ended   bool
	last    []Status
}

// Watch calls changed with the statuses of the checks of an owner's services that Consul has, and of their sidecars,
// after each change of one of them, until end is called. A call that has begun may return after end. Checks that Consul
// does not have are left out. While anything is watched, Run asks for all checks of the agent once per second. A failed
// request changes nothing. changed must not block.
func (r *Reconciler) Watch(owner string, changed func([]Status)) (end func()) {
	w := &watch{owner: owner, changed: changed}
	r.mu.Lock()
	r.watches[w] = struct{}{}
	r.mu.Unlock()
	r.polls.Send()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		w.ended = true
		delete(r.watches, w)
	}
}

// agentCheck is the part of a check of Consul that matters to watches.
type agentCheck struct{ CheckID, Status, Output, ServiceID string }

// poll asks for the checks of Consul while anything is watched.
func (r *Reconciler) poll(ctx context.Context) {
	for {
		if r.watched() {
			if checks, err := r.statusesOf(ctx); err == nil { // list reports failures
				r.deliver(checks)
			}
			if backoff.Sleep(ctx, pollEvery) != nil {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-r.polls:
		}
	}
}

// statusesOf returns the checks of services that this agent may have registered, by the ID of the service.
func (r *Reconciler) statusesOf(ctx context.Context) (out map[string][]agentCheck, err error) {
	err = each(ctx, r, "/v1/agent/checks", func() func(string, *agentCheck) {
		out = map[string][]agentCheck{}
		return func(_ string, c *agentCheck) {
			if r.tracks(c.ServiceID) {
				if len(c.Output) > maxOutput {
					c.Output = strings.Clone(c.Output[:maxOutput]) // a slice would keep the rest in memory
				}
				out[c.ServiceID] = append(out[c.ServiceID], *c)
			}
		}
	})
	return out, err
}

func (r *Reconciler) watched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.watches) > 0
}

// deliver calls the watches whose statuses have changed.
func (r *Reconciler) deliver(byService map[string][]agentCheck) {
	type call struct {
		*watch
		now []Status
	}
	var calls []call
	r.mu.Lock()
	for w := range r.watches {
		calls = append(calls, call{w, r.statuses(w.owner, byService)})
	}
	r.mu.Unlock()
	for _, c := range calls {
		if slices.Equal(c.now, c.last) || r.hasEnded(c.watch) {
			continue
		}
		c.last = c.now
		c.changed(slices.Clone(c.now))
	}
}

func (r *Reconciler) hasEnded(w *watch) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.ended
}

// statuses returns those of the checks of an owner, sorted by ID. The caller holds mu.
func (r *Reconciler) statuses(owner string, byService map[string][]agentCheck) (out []Status) {
	for _, id := range r.owners[owner] {
		i := r.items[id]
		if i == nil || i.want == nil || i.owner != owner {
			continue
		}
		for _, c := range byService[id] {
			if i.wants(c.CheckID) {
				out = append(out, Status{c.CheckID, c.Status, c.Output})
			}
		}
		for _, c := range byService[SidecarID(id)] {
			out = append(out, Status{c.CheckID, c.Status, c.Output})
		}
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.CheckID, b.CheckID) })
	return out
}
