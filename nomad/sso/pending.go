package sso

import (
	"container/list"
	"crypto/rand"
	"encoding/base64"
	"sync"
	"time"
)

// How many logins may be under way, and for how long.
const (
	maxPending    = 10_000
	pendingWithin = 5 * time.Minute
)

// pending are the logins that a browser was sent away for. When there are too many the
// oldest is forgotten.
type pending struct {
	now func() time.Time

	mu      sync.Mutex
	byState map[string]*list.Element
	byAge   list.List // of *login, the oldest first
}

// login is one that was begun.
type login struct {
	state    string
	method   string
	nonce    string
	redirect string
	verifier string // of PKCE, "" without
	begun    time.Time
}

// begin remembers a login under a state that nobody guesses.
func (p *pending) begin(l login) (state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.state, l.begun = random(), p.now()
	for at := p.byAge.Front(); at != nil && (p.over(at) || p.byAge.Len() >= maxPending); at = p.byAge.Front() {
		p.drop(at)
	}
	p.byState[l.state] = p.byAge.PushBack(&l)
	return l.state
}

// end returns the login that a state belongs to, once. Who does not know its nonce, and
// where it was to return, does not end it for who does.
func (p *pending) end(state, method, nonce, redirect string) (*login, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.byState[state]
	if at == nil || p.over(at) {
		return nil, false
	}
	l := at.Value.(*login)
	if l.method != method || l.nonce != nonce || l.redirect != redirect {
		return nil, false
	}
	p.drop(at)
	return l, true
}

func (p *pending) over(at *list.Element) bool {
	return p.now().Sub(at.Value.(*login).begun) >= pendingWithin
}

func (p *pending) drop(at *list.Element) {
	delete(p.byState, p.byAge.Remove(at).(*login).state)
}

// random is text of 256 bits.
func random() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
