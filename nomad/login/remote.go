package login

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// How long fetched keys are cached, how long they stay valid if they can't be fetched again,
// and the pauses between two fetches.
const (
	keysFresh   = 10 * time.Minute
	keysStale   = time.Hour
	unknownWait = 10 * time.Second // for an unknown key ID
	failedWait  = 2 * time.Second
)

// remote is the key set that a provider publishes. Tokens with unknown key IDs cause at most
// one fetch per unknownWait.
type remote struct {
	fetch  func(ctx context.Context) ([]key, error)
	now    func() time.Time
	flight singleflight.Group

	mu      sync.Mutex
	known   []key
	fetched time.Time // time of the last successful fetch
	tried   time.Time
	failed  error // of the last attempt
}

// keys returns the keys with the ID, or all keys if the ID is empty.
func (r *remote) keys(ctx context.Context, kid string) ([]key, error) {
	found, wait, err := r.find(kid)
	if !wait {
		return found, err
	}
	done := r.flight.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx),
			answerWithin) // other callers share the fetch, so it must survive this caller
		defer cancel()
		r.refresh(ctx)
		return nil, nil
	})
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found, _, err = r.find(kid)
	return found, err
}

// find returns the cached keys, and whether the keys must be fetched first.
func (r *remote) find(kid string) (found []key, fetch bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for _, k := range r.known {
		if kid == "" || k.id == kid {
			found = append(found, k)
		}
	}
	age, pause := now.Sub(r.fetched), now.Sub(r.tried)
	switch {
	case r.failed != nil && pause < failedWait, len(found) > 0 && age < keysFresh:
		fetch = false
	case len(found) == 0 && r.failed == nil && !r.tried.IsZero():
		fetch = pause >= unknownWait
	default:
		fetch = true
	}
	if len(found) == 0 || age >= keysStale {
		return nil, fetch, r.failed
	}
	return found, fetch, nil
}

// refresh fetches the keys and records the result.
func (r *remote) refresh(ctx context.Context) {
	keys, err := r.fetch(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried, r.failed = r.now(), err
	if err == nil {
		r.known, r.fetched = keys, r.tried
	}
}

// fetchJWKS fetches a key set.
func fetchJWKS(ctx context.Context, client *http.Client, url string) ([]key, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: its key set has no URL", ErrProvider)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: fetch its keys: %w", ErrProvider, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: fetch its keys: %s", ErrProvider, http.StatusText(resp.StatusCode))
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: fetch its keys: %w", ErrProvider, err)
	}
	keys, err := parseJWKS(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProvider, err)
	}
	return keys, nil
}
