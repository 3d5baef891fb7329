package workloadapi

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/trustbundle"
)

// Times of requests to the servers.
const (
	bundleWait = time.Minute // of one blocking query: a key that is opened late changes no index
	retryFirst = 250 * time.Millisecond
	retryLast  = 30 * time.Second
)

// Bundles holds the trust bundle of the region. While tasks use it, Run keeps it up to date. It is safe
// for concurrent use.
type Bundles struct {
	rpc    message.Caller
	region string
	log    *slog.Logger

	mu      sync.Mutex
	users   int
	used    chan struct{} // closed while there are users
	current *trustbundle.Bundle
	changed chan struct{} // closed when current changes
}

// NewBundles returns a Bundles without a bundle.
func NewBundles(rpc message.Caller, region string, log *slog.Logger) *Bundles {
	return &Bundles{rpc: rpc, region: region, log: log, used: make(chan struct{}), changed: make(chan struct{})}
}

// Use begins a use of the bundle; the returned function ends it.
func (b *Bundles) Use() (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users++; b.users == 1 {
		close(b.used)
	}
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.users--; b.users == 0 {
			b.used = make(chan struct{})
		}
	})
}

// Current returns the bundle, nil before the first, and a channel that is closed when it changes.
func (b *Bundles) Current() (*trustbundle.Bundle, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current, b.changed
}

// Run keeps the bundle up to date until ctx ends.
func (b *Bundles) Run(ctx context.Context) error {
	var index uint64
	again := backoff.Backoff{Min: retryFirst, Max: retryLast}
	for {
		b.mu.Lock()
		used := b.used
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-used:
		}
		next, err := b.fetch(ctx, index)
		if err == nil {
			index = next
			again.Reset()
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.log.Warn("fetch the SPIFFE trust bundle: trying again", "err", err)
		index = 0
		if err := pause(ctx, again.Next()); err != nil {
			return err
		}
	}
}

// fetch requests the bundle that follows an index and returns its index.
func (b *Bundles) fetch(ctx context.Context, index uint64) (uint64, error) {
	req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: b.region, MinQueryIndex: index, MaxQueryTime: bundleWait}}
	var resp message.SpiffeBundleResponse
	if err := b.rpc.Call(ctx, "Spiffe.Bundle", req, &resp); err != nil {
		return 0, err
	}
	next, err := trustbundle.New(trustbundle.Info{Domain: resp.TrustDomain, Sequence: resp.Sequence, Refresh: resp.RefreshHint},
		resp.Authorities)
	if err != nil {
		return 0, fmt.Errorf("read the reply of the servers: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil || !b.current.Equal(next) {
		b.current = next
		close(b.changed)
		b.changed = make(chan struct{})
	}
	return resp.Index, nil
}

// pause waits for a random time up to d, at least half of it.
func pause(ctx context.Context, d time.Duration) error {
	return backoff.Sleep(ctx, d/2+rand.N(d/2+1))
}
