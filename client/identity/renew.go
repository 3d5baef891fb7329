package identity

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// soonest bounds how often tokens that are born old are renewed.
	soonest = 100 * time.Millisecond
	// retryBase and retryMax bound the wait after a failure while tokens live.
	retryBase = 10 * time.Second
	retryMax  = time.Hour
	// retryDead bounds it once a token has expired.
	retryDead = 30 * time.Second
	// tryLeast and tryMost bound one try.
	tryLeast = time.Second
	tryMost  = 30 * time.Second
)

// errClock keeps an agent from asking again and again for what it can't use.
var errClock = errors.New("new tokens are over before they came: set the clock of this machine")

// Run keeps the tokens fresh until ctx is done. It returns at once when there is
// nothing to renew.
func (m *Manager) Run(ctx context.Context) error {
	next, retries := firstIn, 0
	for {
		exp, found := m.earliest()
		if !found {
			return nil
		}
		wait := next(time.Until(exp))
		if retries > 0 {
			wait = retryIn(retries, time.Until(exp))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		if err := m.renew(ctx, exp); err != nil {
			m.cfg.Log.Warn("identities not renewed", "alloc", m.cfg.Alloc.ID, "err", err)
			next, retries = firstIn, retries+1
			continue
		}
		if retries == 0 {
			next = renewIn
		}
		retries = 0
	}
}

// renew fetches new tokens. It gives up while there is time for another try before
// exp: the next goes to another server.
func (m *Manager) renew(ctx context.Context, exp time.Time) error {
	limit := tryMost
	if left := time.Until(exp); left > 0 {
		limit = min(max(left/2, tryLeast), tryMost)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := m.fetch(ctx); err != nil {
		return err
	}
	if exp, found := m.earliest(); found && !exp.After(time.Now()) {
		return errClock
	}
	return nil
}

// earliest is when the first of the tokens that expire does.
func (m *Manager) earliest() (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first *nomad.SignedWorkloadIdentity
	for _, id := range m.held {
		if !id.Expiration.IsZero() && (first == nil || id.Expiration.Before(first.Expiration)) {
			first = id
		}
	}
	if first == nil {
		return time.Time{}, false
	}
	return first.Expiration, true
}

// renewIn is how long a token is left alone that lives for remaining.
func renewIn(remaining time.Duration) time.Duration {
	half := remaining / 2
	return max(half+jitter(half/10), soonest)
}

// firstIn is renewIn for one of many that began together: it comes as late as that at
// the latest, and they are spread evenly over the time before. What is over is renewed
// at once.
func firstIn(remaining time.Duration) time.Duration {
	return max(remaining/20+jitter(remaining/2), soonest)
}

// retryIn is how long to wait after the nth failure in a row: longer each time,
// but never so long that the shortest token runs out with tries left undone.
func retryIn(n int, remaining time.Duration) time.Duration {
	wait, limit := retryBase, retryMax
	if remaining <= 0 {
		wait, limit = time.Second, retryDead
	}
	for range n {
		wait = min(2*wait, limit)
	}
	if remaining > 0 {
		wait = min(wait, max(remaining/4, soonest))
	}
	return wait/2 + jitter(wait/2+1)
}

// jitter is a random part of up to d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
