package token

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

// session is the token of a task, from its first Watch to its end.
type session struct {
	m    *Manager
	task string
	wake wake.Signal // the session needs something
	// verdicts wakes those who wait for a token, or for the result of its look-up.
	verdicts *wake.Broadcast
	// spread is below 1 and random.
	spread float64

	// m.mu guards the rest.
	block    *nomad.Vault
	identity bool // the task has one for Vault
	watched  bool
	cancel   context.CancelFunc // ends run, nil before it has begun
	over     bool               // stop was called: the store has the end of token, if there is one
	token    *state.VaultToken  // never modified, nil for none
	life     life               // of token
	fixed    bool               // Vault does not renew token
	lost     bool               // Vault does not accept token any more
	doubt    bool               // token must be looked up
	// confirmed is when Vault has last accepted token, zero for not since this agent started.
	confirmed time.Time
	mute      bool // Vault has not answered the last lookup
	subs      map[chan Token]struct{}
	fault     string // of the last request, "" after a success
	faultAt   time.Time
}

// newSession returns a session without a token, of a task with a vault block.
func (m *Manager) newSession(t *nomad.Task) *session {
	return &session{m: m, task: t.Name, wake: wake.New(), verdicts: &wake.Broadcast{}, spread: rand.Float64(), block: t.Vault,
		identity: hasIdentity(t), subs: map[chan Token]struct{}{}}
}

// successor returns a session without a token that takes the place of an ended one.
func (s *session) successor() *session {
	return &session{m: s.m, task: s.task, wake: wake.New(), verdicts: s.verdicts, spread: s.spread, block: s.block, identity: s.identity,
		subs: s.subs}
}

// restore takes a stored token.
func (s *session) restore(t *state.VaultToken) {
	s.token, s.life = t, initial(t)
	s.doubt = !s.block.AllowTokenExpiration // else Confirm sets it
}

// stop ends run, and returns the token, which is to be revoked. The caller holds m.mu.
func (s *session) stop() []*state.VaultToken {
	s.over = true
	if s.cancel != nil {
		s.cancel()
	}
	s.verdicts.Send()
	if s.token == nil {
		return nil
	}
	return []*state.VaultToken{s.token} // a lost one too, as in adopt
}

// current returns the token, zero for none. The caller holds m.mu. A nil session has none.
func (s *session) current() Token {
	if s == nil || s.token == nil || s.lost {
		return Token{}
	}
	return Token{Secret: login.NewSecret(s.token.Secret), Accessor: s.token.Accessor, Namespace: s.token.Namespace}
}

// action is what a session needs.
type action int

const (
	nothing action = iota
	check          // look the token up
	renew          // extend its life
	logIn          // get a new one
)

// next returns what the session needs, and when.
func (s *session) next() (time.Duration, action) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	switch {
	case s.token == nil || s.lost:
		return 0, logIn
	case s.doubt:
		return 0, check
	case s.block.AllowTokenExpiration || s.life.expires.IsZero():
		return idle, nothing
	case s.life.ended():
		return 0, logIn
	}
	if wait := time.Until(s.life.next(s.spread)); wait > 0 {
		return min(wait, idle), nothing
	}
	if s.life.fixed {
		return 0, logIn
	}
	return 0, renew
}

// idle is how long a session waits that needs nothing.
const idle = time.Hour

// run keeps a token until ctx ends.
func (s *session) run(ctx context.Context) {
	jwts, end := s.m.cfg.Identities.Watch(identity.TaskHandle(s.task, Identity))
	defer end()
	a := attempts{s: s, retry: login.NewRetry()}
	for {
		wait, what := s.next()
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
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// newest returns the token and its life.
func (s *session) newest() (*state.VaultToken, life) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.token, s.life
}

// ending returns the end of the token if it is to be renewed and less than a third of its life remains, else zero. The life of
// a token that an earlier agent may have renewed is not known before its lookup.
func (s *session) ending() time.Time {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.block.AllowTokenExpiration || s.confirmed.IsZero() || s.life.expires.IsZero() || time.Until(s.life.expires) >= s.life.lease/3 {
		return time.Time{}
	}
	return s.life.expires
}

// update modifies the session if it still has a token, and has not ended. It reports whether it did.
func (s *session) update(t *state.VaultToken, change func()) bool {
	s.m.mu.Lock()
	same := s.token == t && !s.over
	if same {
		change()
	}
	s.m.mu.Unlock()
	s.verdicts.Send()
	return same
}

// accepted records that Vault has accepted the token, with a new life if l is not nil.
func (s *session) accepted(t *state.VaultToken, l *life) {
	s.update(t, func() {
		s.doubt, s.mute, s.confirmed, s.fault = false, false, time.Now(), ""
		if s.fixed {
			s.fault = unrenewable
		}
		if l == nil {
			return
		}
		s.life = *l
		s.life.fixed = s.life.fixed || s.fixed
		if l.lease > t.Lease && t.Lease > 0 { // how long a revocation is tried
			longer := *t
			longer.Lease = l.lease
			s.token = &longer
			s.m.node.cfg.Store.PutVaultTokenLater(s.m.cfg.Alloc.ID, &longer)
		}
	})
}

// adopt makes a new token the current one. It reports whether the session still exists.
func (s *session) adopt(t *state.VaultToken) bool {
	m := s.m
	m.mu.Lock()
	if m.sessions[s.task] != s {
		m.mu.Unlock()
		return false
	}
	old, lost := s.token, s.lost
	s.token, s.life, s.confirmed, s.fault = t, initial(t), time.Now(), ""
	s.fixed, s.lost, s.doubt, s.mute = false, false, false, false
	s.publish()
	m.mu.Unlock()
	s.verdicts.Send()
	switch {
	case old == nil:
	case lost:
		m.node.end(m.cfg.Alloc.ID, 0, old) // the verdict depends on a text of Vault
	default:
		m.node.end(m.cfg.Alloc.ID, login.ReplacedWait, old)
	}
	return true
}

// publish sends the token to the subscribers. The caller holds m.mu.
func (s *session) publish() {
	t := s.current()
	for ch := range s.subs {
		select {
		case <-ch: // an older one that was not received
		default:
		}
		ch <- t // never blocks: only publish sends, under the mutex
	}
}
