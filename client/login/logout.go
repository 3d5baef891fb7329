package login

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/wake"
)

const (
	// endWait limits how long the end of an allocation waits for the logouts.
	endWait = time.Second
	// giveUp is how long after its end a token is logged out at most. Without an end of its life, it then remains in the
	// product.
	giveUp = 24 * time.Hour
)

// ReplacedWait is how long a replaced token stays valid: its user may have requests in progress, or use it until the second
// list of services of Consul at the latest.
const ReplacedWait = time.Minute

// Leftover reports whether a token that the previous agent stored is not needed, and how long it stays valid. That of an
// allocation on this node may have been replaced, and stays for the rest of ReplacedWait.
func Leftover(onNode bool, ended time.Time) (wait time.Duration, needless bool) {
	switch {
	case !onNode:
		return 0, true
	case ended.IsZero():
		return 0, false
	}
	return min(ReplacedWait, ReplacedWait-time.Since(ended)), true
}

// Ended is a token that is no longer needed.
type Ended struct {
	Alloc, ID string
	Since     time.Time
	Expires   time.Time // when the product drops the token itself, zero for never
	// Logout logs the token out. A token that does not exist is logged out.
	Logout func(context.Context) error
	// Drop removes the token from the store.
	Drop func()
}

// LogoutsConfig configures Logouts.
type LogoutsConfig struct {
	Product string
	// Down reports whether an error means that the next logout would fail too. An error about one token does not: the older
	// ones would wait for it.
	Down func(error) bool
	// Redact returns an error without secrets.
	Redact func(error) error
	Log    *slog.Logger
}

// Logouts are the tokens that Run logs out. Its methods may be called concurrently.
type Logouts struct {
	cfg  LogoutsConfig
	wake wake.Signal

	mu      sync.Mutex
	queue   []*logout
	pending map[string]*logout // all that are not done, by allocation and ID
}

// logout is a token to log out.
type logout struct {
	Ended
	due  time.Time     // guarded by mu
	done chan struct{} // closed when it is logged out, or given up
}

func (l *logout) key() string { return l.Alloc + "_" + l.ID }

// NewLogouts returns Logouts. The caller runs them.
func NewLogouts(cfg LogoutsConfig) *Logouts {
	return &Logouts{cfg: cfg, wake: wake.New(), pending: map[string]*logout{}}
}

// Add adds tokens that are logged out after a time. A token that was added before is logged out at the earlier time.
func (q *Logouts) Add(after time.Duration, tokens ...Ended) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(after, tokens)
}

// add returns the logouts of tokens. The caller holds mu.
func (q *Logouts) add(after time.Duration, tokens []Ended) (out []*logout) {
	due := time.Now().Add(after)
	for _, t := range tokens {
		l := &logout{t, due, make(chan struct{})}
		if known := q.pending[l.key()]; known != nil {
			l = known
			if due.Before(l.due) {
				l.due = due
			}
		} else {
			q.pending[l.key()] = l
			q.queue = append(q.queue, l)
		}
		out = append(out, l)
	}
	q.wake.Send()
	return out
}

// EndAll adds all tokens of an allocation that has ended. Its tokens that were added before are due now. It waits one second
// at most until all are logged out; Run continues.
func (q *Logouts) EndAll(ctx context.Context, alloc string, tokens []Ended) {
	q.mu.Lock()
	all := q.add(0, tokens)
	for _, l := range q.pending {
		if l.Alloc == alloc && l.due.After(time.Now()) {
			l.due = time.Now()
			all = append(all, l)
		}
	}
	q.wake.Send()
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	for _, l := range all {
		select {
		case <-l.done:
		case <-ctx.Done():
			return
		}
	}
}

// Run logs out tokens until ctx ends.
func (q *Logouts) Run(ctx context.Context) error {
	again := backoff.Backoff{Min: time.Second, Max: 5 * time.Minute}
	for {
		wait, missed := q.pass(ctx)
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
		case <-q.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pass tries each logout that is due, the newest first, until the product does not answer. It returns when the next one is
// due, and whether any failed.
func (q *Logouts) pass(ctx context.Context) (next time.Duration, missed bool) {
	due, next := q.take(time.Now())
	for i := len(due) - 1; i >= 0; i-- {
		err := q.try(ctx, due[i])
		if err == nil {
			due = slices.Delete(due, i, i+1)
			continue
		}
		missed = true
		if q.cfg.Down(err) {
			break
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(due, q.queue...)
	return next, missed
}

// take removes the logouts that are due from the queue, and returns when the next of the others is due.
func (q *Logouts) take(now time.Time) (due []*logout, next time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next = giveUp
	var later []*logout
	for _, l := range q.queue {
		if l.due.After(now) {
			later, next = append(later, l), min(next, l.due.Sub(now))
			continue
		}
		due = append(due, l)
	}
	q.queue = later
	return due, next
}

// try logs a token out, unless it is too old. Without an error, the token is done.
func (q *Logouts) try(ctx context.Context, l *logout) error {
	now := time.Now()
	if expired := !l.Expires.IsZero() && now.After(l.Expires); !expired {
		err := l.Logout(ctx)
		if err != nil && now.Sub(l.Since) < giveUp {
			return err
		}
		if err != nil {
			q.cfg.Log.Warn("token is not logged out", "product", q.cfg.Product, "alloc", l.Alloc, "accessor", l.ID, "err", q.cfg.Redact(err))
		}
	}
	l.Drop()
	q.mu.Lock()
	delete(q.pending, l.key())
	q.mu.Unlock()
	close(l.done)
	return nil
}
