package token

import (
	"context"
	"slices"
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
	// replacedWait is how long a replaced token of a service stays valid: Consul uses the token of a registration until the
	// service is registered with the new one, at the second list of services at the latest.
	replacedWait = time.Minute
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
	due   time.Time
	done  chan struct{} // closed when it is logged out, or given up
}

// end adds tokens of an allocation that are not needed after a time. A restarted agent continues.
func (n *Node) end(alloc string, tokens []*state.ConsulToken, after time.Duration) []*logout {
	var added []*logout
	for _, t := range tokens {
		one := *t
		if one.Ended.IsZero() {
			one.Ended = time.Now()
			n.cfg.Store.PutConsulTokenLater(alloc, &one)
		}
		added = append(added, &logout{alloc, &one, time.Now().Add(after), make(chan struct{})})
	}
	n.logouts.mu.Lock()
	n.logouts.queue = append(n.logouts.queue, added...)
	n.logouts.mu.Unlock()
	n.logouts.wake.Send()
	return added
}

// endAll adds all tokens of an allocation that has ended. It returns its logouts, also those that were not due.
func (n *Node) endAll(alloc string, tokens []*state.ConsulToken) []*logout {
	added := n.end(alloc, tokens, 0)
	n.logouts.mu.Lock()
	defer n.logouts.mu.Unlock()
	for _, l := range n.logouts.queue {
		if l.alloc == alloc && l.due.After(time.Now()) {
			l.due = time.Now()
			added = append(added, l)
		}
	}
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
		n.end(alloc, ended, 0)
	}
}

// Run logs out tokens until ctx ends. The next agent continues.
func (n *Node) Run(ctx context.Context) error {
	again := backoff.Backoff{Min: time.Second, Max: 5 * time.Minute}
	for {
		wait, missed := n.pass(ctx)
		if missed {
			wait = min(wait, again.Next())
		} else {
			again.Reset()
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

// pass tries each logout that is due, the newest first, until Consul does not answer. It returns when the next one is due,
// and whether any failed.
func (n *Node) pass(ctx context.Context) (next time.Duration, missed bool) {
	due, next := n.take(time.Now())
	for i := len(due) - 1; i >= 0; i-- {
		err := n.try(ctx, due[i])
		if err == nil {
			due = slices.Delete(due, i, i+1)
			continue
		}
		missed = true
		if n.down(err) {
			break
		}
	}
	n.logouts.mu.Lock()
	defer n.logouts.mu.Unlock()
	n.logouts.queue = append(due, n.logouts.queue...)
	return next, missed
}

// take removes the logouts that are due from the queue, and returns when the next of the others is due.
func (n *Node) take(now time.Time) (due []*logout, next time.Duration) {
	n.logouts.mu.Lock()
	defer n.logouts.mu.Unlock()
	next = giveUp
	var later []*logout
	for _, l := range n.logouts.queue {
		if l.due.After(now) {
			later, next = append(later, l), min(next, l.due.Sub(now))
			continue
		}
		due = append(due, l)
	}
	n.logouts.queue = later
	return due, next
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
