package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
)

// maxUnauthenticated bounds the sessions whose caller is not authenticated yet.
const maxUnauthenticated = 64

// door is the streaming method of a session, the right without which errors in its request are not shown,
// and the number of its open sessions. Each kind has its own limit, so that one does not exhaust the other.
//
//	websocket ──token in a header──────────────────────▶ maxSessions
//	    └──▶ maxUnauthenticated ──handshake, right──────────▲
//
// Anonymous callers with the right, such as all callers without ACLs, need no token.
type door struct {
	method  string
	right   acl.NamespaceCapability
	open    *atomic.Int64
	waiting *pendingSessions
}

// enter counts a session until leave is called.
func (d door) enter() (leave func(), err error) {
	if d.open.Add(1) <= maxSessions {
		return func() { d.open.Add(-1) }, nil
	}
	d.open.Add(-1)
	kind := "exec sessions"
	if d.method == forwardMethod {
		kind = "forwarded connections"
	}
	return nil, nomad.Errorf(http.StatusTooManyRequests, "too many %s on this agent: the limit is %d", kind, maxSessions)
}

// pendingSessions holds the sessions whose caller is not authenticated. If there are too many, the oldest is ended: a caller
// with a token leaves within milliseconds, so that callers without one cannot keep it out. The zero value is empty.
type pendingSessions struct {
	mu      sync.Mutex
	entered []*pendingSession // oldest first
}

type pendingSession struct{ end func() }

// enter adds a session until leave is called. end must end the session without waiting for the caller.
func (l *pendingSessions) enter(end func()) (leave func()) {
	v := &pendingSession{end}
	l.mu.Lock()
	l.entered = append(l.entered, v)
	var oldest *pendingSession
	if len(l.entered) > maxUnauthenticated {
		oldest, l.entered = l.entered[0], slices.Delete(l.entered, 0, 1)
	}
	l.mu.Unlock()
	if oldest != nil {
		oldest.end()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.entered, v); i >= 0 {
			l.entered = slices.Delete(l.entered, i, i+1)
		}
	}
}

// authenticated reports whether the bearer of the token may have sessions. The exact right depends on the allocation:
// the servers and the node check it. The token of another region is checked there.
func (d door) authenticated(r *web.Request, token string) (bool, error) {
	if r.IsLocal() {
		err := r.AskFor(token, web.Somewhere(d.right))
		return err == nil, err
	}
	return r.HasIdentity(token)
}

// admit waits for the token of a session that has a websocket, and counts the session as authenticated. The session of
// an anonymous caller in another region stays pending.
func (d door) admit(ctx context.Context, x *execSession, r *web.Request, q session, shakes bool) (leave func(), err error) {
	out := d.waiting.enter(x.cut)
	if shakes {
		if err := x.handshake(ctx, r, q); err != nil {
			return out, err
		}
	}
	switch known, err := d.authenticated(r, q.Query().AuthToken); {
	case err != nil:
		return out, err
	case !known:
		return out, nil
	}
	leave, err = d.enter()
	if err != nil {
		return out, err
	}
	out()
	return leave, nil
}
