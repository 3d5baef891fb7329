package token

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// workload is a task or a service that needs a token.
type workload struct {
	key       key
	handle    message.WIHandle
	service   string // the interpolated name, "" for a task
	method    string
	requester string // in the metadata of a login
	name      string // in events
	shared    bool   // processes read the token when they start

	m    *Manager
	wake wake.Signal // doubt was set
	// spread is below 1, at random, so that tokens that began together are not renewed together.
	spread float64

	// m.mu guards the rest.
	cancel context.CancelFunc // ends run, nil before it has begun
	token  *state.ConsulToken // never modified, nil for none
	stale  bool               // token has other claims than handle
	doubt  bool               // token may be unknown to Consul
	subs   map[chan login.Secret]struct{}
}

// owns reports whether a stored token is the workload's current one.
func (w *workload) owns(t *state.ConsulToken) bool {
	return w.key == (key{t.Identity, t.Workload}) && w.service == t.Service && !t.Replaced
}

// restore takes a stored token, which run checks. Of several tokens it keeps a ready one, and the newest.
func (w *workload) restore(t *state.ConsulToken) {
	if c := w.token; c == nil || t.Ready && !c.Ready || t.Ready == c.Ready && t.Created.After(c.Created) {
		w.token, w.doubt = t, true
	}
}

// stop ends run. The caller holds m.mu.
func (w *workload) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// secret returns the usable secret. The caller holds m.mu. A nil workload has none.
func (w *workload) secret() login.Secret {
	if w == nil || w.token == nil || !w.token.Ready || !w.token.Expires.IsZero() && !time.Now().Before(w.token.Expires) {
		return login.Secret{}
	}
	return login.NewSecret(w.token.Secret)
}

// action is what a workload needs.
type action int

const (
	nothing action = iota
	check          // ask Consul whether it has the token
	logIn          // get a new token
)

// next returns what the workload needs, and when.
func (w *workload) next() (time.Duration, action) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	t := w.token
	switch {
	case t == nil:
		return 0, logIn
	case w.doubt || !t.Ready:
		return 0, check
	case w.stale:
		return 0, logIn
	case t.Expires.IsZero():
		return idle, nothing
	}
	half := t.Expires.Sub(t.Created) / 2
	if wait := time.Until(t.Created.Add(half + time.Duration(w.spread*float64(half/5)))); wait > 0 {
		return wait, nothing
	}
	return 0, logIn
}

// idle is how long a workload waits that needs nothing.
const idle = time.Hour

// run keeps a token until ctx ends.
func (w *workload) run(ctx context.Context) {
	jwts, end := w.m.cfg.Identities.Watch(w.handle)
	defer end()
	a := attempts{w: w, retry: login.NewRetry()}
	for {
		wait, what := w.next()
		if what != nothing {
			wait = a.attempt(ctx, what)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case a.jwt = <-jwts:
			a.retry.Now() // the old one may have been refused
		case <-w.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// adopt makes a new token the current one. It reports whether the workload still exists.
func (w *workload) adopt(t *state.ConsulToken) bool {
	w.m.mu.Lock()
	if w.m.workloads[w.key] != w {
		w.m.mu.Unlock()
		return false
	}
	old, lost := w.token, w.doubt
	w.token, w.stale, w.doubt = t, false, false
	w.publish()
	w.m.mu.Unlock()
	if old != nil && old.Accessor != t.Accessor {
		w.m.retire(old, w.shared && !lost)
	}
	return true
}

// publish sends the secret to the subscribers. The caller holds m.mu.
func (w *workload) publish() {
	s := w.secret()
	for ch := range w.subs {
		select {
		case <-ch: // an older one that was not received
		default:
		}
		ch <- s // never blocks: only publish sends, under the mutex
	}
}

// confirmed records that Consul has the token.
func (w *workload) confirmed(t *state.ConsulToken) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.token == nil || w.token.Accessor != t.Accessor {
		return
	}
	first := !w.token.Ready
	w.token, w.doubt = t, false
	if first {
		w.publish()
	}
}

// discard forgets a token that Consul does not have.
func (w *workload) discard(t *state.ConsulToken) {
	w.m.mu.Lock()
	if w.token != nil && w.token.Accessor == t.Accessor {
		w.token, w.doubt = nil, false
	}
	w.m.mu.Unlock()
	w.m.node.cfg.Store.DeleteConsulToken(w.m.cfg.Alloc.ID, t.Accessor)
}

// current returns the current token, nil for none.
func (w *workload) current() *state.ConsulToken {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	return w.token
}
