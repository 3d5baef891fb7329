package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// maxUnauthenticated bounds the sessions whose caller is not authenticated yet.
const maxUnauthenticated = 64

// sessionKind is the streaming method of a session, the right without which errors in its request are not shown,
// and the number of its open sessions. Each kind has its own limit, so that one does not exhaust the other.
//
//	websocket ──token in a header──────────────────────▶ maxSessions
//	    └──▶ maxUnauthenticated ──handshake, right──────────▲
//
// Anonymous callers with the right, such as all callers without ACLs, need no token.
type sessionKind struct {
	method  string
	right   acl.NamespaceCapability
	open    *atomic.Int64
	waiting *pendingSessions
}

// begin counts a session until end is called.
func (k sessionKind) begin() (end func(), err error) {
	if k.open.Add(1) <= maxSessions {
		return func() { k.open.Add(-1) }, nil
	}
	k.open.Add(-1)
	kind := "exec sessions"
	if k.method == forwardMethod {
		kind = "forwarded connections"
	}
	return nil, apierror.Errorf(http.StatusTooManyRequests, "too many %s on this agent: the limit is %d", kind, maxSessions)
}

// pendingSessions holds the sessions whose caller is not authenticated. If there are too many, the oldest is ended: a caller
// with a token is authenticated within milliseconds, so that callers without one cannot keep it out. The zero value is empty.
type pendingSessions struct {
	mu   sync.Mutex
	list []*pendingSession // oldest first
}

type pendingSession struct{ end func() }

// add adds a session until remove is called. end must end the session without waiting for the caller.
func (l *pendingSessions) add(end func()) (remove func()) {
	v := &pendingSession{end}
	l.mu.Lock()
	l.list = append(l.list, v)
	var oldest *pendingSession
	if len(l.list) > maxUnauthenticated {
		oldest, l.list = l.list[0], slices.Delete(l.list, 0, 1)
	}
	l.mu.Unlock()
	if oldest != nil {
		oldest.end()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.list, v); i >= 0 {
			l.list = slices.Delete(l.list, i, i+1)
		}
	}
}

// authenticated reports whether the bearer of the token may have sessions. The exact right depends on the allocation:
// the servers and the node check it. The token of another region is checked there.
func (k sessionKind) authenticated(r *web.Request, token string) (bool, error) {
	if r.IsLocal() {
		err := r.AskFor(token, web.Somewhere(k.right))
		return err == nil, err
	}
	return r.HasIdentity(token)
}

// handshake is a session that has a websocket and is not authenticated.
type handshake struct {
	session   *execSession
	request   *web.Request
	query     session
	withToken bool // the first message of the caller has its token
}

// admit waits for the token of a session, and counts the session as authenticated until end is called. The session of
// an anonymous caller in another region stays pending.
func (k sessionKind) admit(ctx context.Context, h handshake) (end func(), err error) {
	remove := k.waiting.add(h.session.disconnect)
	if h.withToken {
		if err := h.session.handshake(ctx, h.request, h.query); err != nil {
			return remove, err
		}
	}
	switch known, err := k.authenticated(h.request, h.query.Query().AuthToken); {
	case err != nil:
		return remove, err
	case !known:
		return remove, nil
	}
	end, err = k.begin()
	if err != nil {
		return remove, err
	}
	remove()
	return end, nil
}
