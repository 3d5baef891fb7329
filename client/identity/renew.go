package identity

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	// soonest limits how often tokens with a very short lifetime are renewed.
	soonest = 100 * time.Millisecond
	// retryBase and retryMax limit the delay after a failure while the tokens are valid.
	retryBase = 10 * time.Second
	retryMax  = time.Hour
	// retryDead limits the delay once a token has expired.
	retryDead = 30 * time.Second
	// tryLeast and tryMost limit the duration of one attempt.
	tryLeast = time.Second
	tryMost  = 30 * time.Second
)

// errClock is treated as a failed renewal, so that the agent waits before the next request.
var errClock = errors.New("new tokens have already expired: correct the clock of this machine")

// Update takes the identities of a newer version of the allocation. It reports whether tokens are missing: the caller then
// runs Run, unless it does run.
func (m *Manager) Update(a *nomad.Allocation) (missing bool) {
	asked := requests(m.cfg, a)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = asked
	current := map[message.WIHandle]*message.SignedWorkloadIdentity{}
	for _, r := range asked {
		if id := m.tokens[r.WIHandle]; id != nil {
			current[r.WIHandle] = id
		}
	}
	m.tokens = current
	m.more.Send()
	return len(current) < len(asked)
}

// Run renews the tokens, and fetches missing ones, until ctx ends. It returns at once if there is nothing to do, or if it
// runs already.
func (m *Manager) Run(ctx context.Context) error {
	if !m.begin() {
		return nil
	}
	next, retries := firstIn, 0
	for {
		exp, found := m.due()
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
			m.end()
			return ctx.Err()
		case <-m.more:
			timer.Stop()
			next, retries = firstIn, 0
			continue
		case <-timer.C:
		}
		if err := m.renew(ctx, exp); err != nil {
			m.cfg.Log.Warn("renew identities", "alloc", m.cfg.Alloc.ID, "err", err)
			next, retries = firstIn, retries+1
			continue
		}
		if retries == 0 {
			next = renewIn
		}
		retries = 0
	}
}

// begin reports whether Run is not running, and then marks it as running.
func (m *Manager) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.running
	m.running = true
	return first
}

func (m *Manager) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = false
}

// due returns when the next token expires. Without such a token, Run ends: it is then marked as not running.
func (m *Manager) due() (time.Time, bool) {
	exp, found := m.earliest()
	if found {
		return exp, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = len(m.tokens) < len(m.asked) // Update has added identities since
	return time.Now(), m.running
}

// renew fetches the missing tokens, or else new ones of all identities. It gives up early enough for another attempt, at another server,
// before exp.
func (m *Manager) renew(ctx context.Context, exp time.Time) error {
	limit := tryMost
	if left := time.Until(exp); left > 0 {
		limit = min(max(left/2, tryLeast), tryMost)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	asked := m.missing()
	if len(asked) == 0 {
		asked = m.requests()
	}
	if err := m.fetch(ctx, asked); err != nil {
		return err
	}
	if exp, found := m.earliest(); found && !exp.After(time.Now()) {
		return errClock
	}
	return nil
}

// missing returns the requests for identities without a token, none if the others are due: a missing token that the servers
// refuse must not prevent their renewal.
func (m *Manager) missing() (out []*message.WorkloadIdentityRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.asked {
		if m.tokens[r.WIHandle] == nil {
			out = append(out, r)
		} else if at, expires := m.renewAt[r.WIHandle]; expires && time.Now().After(at) {
			return nil
		}
	}
	return out
}

// earliest returns the earliest expiry of the tokens. A missing token counts as expired.
func (m *Manager) earliest() (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tokens) < len(m.asked) {
		return time.Now(), true
	}
	var first *message.SignedWorkloadIdentity
	for _, id := range m.tokens {
		if !id.Expiration.IsZero() && (first == nil || id.Expiration.Before(first.Expiration)) {
			first = id
		}
	}
	if first == nil {
		return time.Time{}, false
	}
	return first.Expiration, true
}

// renewIn returns the delay before the renewal of a token with the given remaining lifetime.
func renewIn(remaining time.Duration) time.Duration {
	half := remaining / 2
	return max(half+jitter(half/10), soonest)
}

// firstIn is like renewIn, but spreads the renewals of allocations that started together evenly
// over the time before. Expired tokens are renewed at once.
func firstIn(remaining time.Duration) time.Duration {
	return max(remaining/20+jitter(remaining/2), soonest)
}

// retryIn returns the delay after the nth consecutive failure. It grows, but leaves time for
// more attempts before the shortest token expires.
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

// jitter returns a random duration below d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
