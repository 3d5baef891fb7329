package token

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/wake"
)

const (
	// endWait limits how long the end of an allocation waits for the logouts.
	endWait = time.Second
	// giveUp is how long after its end a token is logged out at most. Without a TTL in Consul, it then remains there.
	giveUp = 24 * time.Hour
)

// logouts are the tokens that Run logs out.
type logouts struct {
	wake wake.Signal

	mu    sync.Mutex
	queue []*logout
}

// logout is a token to log out.
type logout struct {
	alloc string
	token *state.ConsulToken
	done  chan struct{} // closed when it is logged out, or given up
}

// end adds tokens that are no longer needed. A restarted agent continues.
func (n *Node) end(alloc string, tokens []*state.ConsulToken) []*logout {
	var added []*logout
	for _, t := range tokens {
		one := *t
		if one.Ended.IsZero() {
			one.Ended = time.Now()
			if err := n.cfg.Store.PutConsulToken(alloc, &one); err != nil {
				n.cfg.Log.Warn("store the end of a Consul token", "alloc", alloc, "accessor", one.Accessor, "err", err)
			}
		}
		added = append(added, &logout{alloc, &one, make(chan struct{})})
	}
	n.logouts.mu.Lock()
	n.logouts.queue = append(n.logouts.queue, added...)
	n.logouts.mu.Unlock()
	n.logouts.wake.Send()
	return added
}

// Leftovers logs out the stored tokens of allocations that are not on this node, and those whose logout has begun. It must be
// called before the first allocation runs.
func (n *Node) Leftovers(has func(alloc string) bool) {
	if n == nil {
		return
	}
	stored, err := n.cfg.Store.ConsulTokens("")
	if err != nil {
		n.cfg.Log.Warn("read the Consul tokens of the previous agent", "err", err)
	}
	for alloc, tokens := range stored {
		var ended []*state.ConsulToken
		for _, t := range tokens {
			if !has(alloc) || !t.Ended.IsZero() {
				ended = append(ended, t)
			}
		}
		n.end(alloc, ended)
	}
}

// Run logs out tokens until ctx ends. The next agent continues.
func (n *Node) Run(ctx context.Context) error {
	again := backoff.Backoff{Min: time.Second, Max: 5 * time.Minute}
	for {
		wait := giveUp // for nothing
		if n.pass(ctx) {
			again.Reset()
		} else {
			wait = again.Next()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-n.logouts.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pass tries each logout of the queue, the newest first, until Consul does not answer. It reports whether none remains.
func (n *Node) pass(ctx context.Context) bool {
	n.logouts.mu.Lock()
	queue := n.logouts.queue
	n.logouts.queue = nil
	n.logouts.mu.Unlock()
	var remain []*logout
	for i := len(queue) - 1; i >= 0; i-- {
		err := n.try(ctx, queue[i])
		if err == nil {
			continue
		}
		remain = append(remain, queue[i])
		if n.down(err) {
			remain = append(remain, queue[:i]...)
			break
		}
	}
	n.logouts.mu.Lock()
	defer n.logouts.mu.Unlock()
	n.logouts.queue = append(remain, n.logouts.queue...)
	return len(n.logouts.queue) == 0
}

// down reports whether an error means that the next logout would fail too.
func (n *Node) down(err error) bool { return !failed(err, "").answered }

// try logs a token out, unless it is too old. Without an error, the token is done.
func (n *Node) try(ctx context.Context, l *logout) error {
	now := time.Now()
	if expired := !l.token.Expires.IsZero() && now.After(l.token.Expires); !expired {
		err := n.logout(ctx, l.token.Secret)
		if err != nil && now.Sub(l.token.Ended) < giveUp {
			return err
		}
		if err != nil {
			n.cfg.Log.Warn("Consul token is not logged out", "alloc", l.alloc, "accessor", l.token.Accessor, "err", consul.Redact(err))
		}
	}
	n.cfg.Store.DeleteConsulToken(l.alloc, l.token.Accessor)
	close(l.done)
	return nil
}
