package identity

import (
	"context"
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
)

// Run keeps the tokens fresh until ctx is done. It returns at once when there is
// nothing to renew.
func (m *Manager) Run(ctx context.Context) error {
	retries := 0
	for {
		exp, found := m.earliest()
		if !found {
			return nil
		}
		wait := renewIn(time.Until(exp))
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
		retries++
		if err := m.fetch(ctx); err != nil {
			m.cfg.Log.Warn("identities not renewed", "alloc", m.cfg.Alloc.ID, "err", err)
			continue
		}
		retries = 0
	}
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
	return wait + jitter(wait/10)
}

// jitter is a random part of up to d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
