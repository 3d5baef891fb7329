// Package backoff waits between attempts. Wait has no jitter. WaitJitter is for what many clients do at the same time.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d. If ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Backoff is a delay that doubles with each attempt, from Min to Max.
type Backoff struct {
	Min, Max time.Duration

	last time.Duration // zero before the first
}

// Next returns the next delay.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Min), b.Max)
	return b.last
}

// Wait waits for the next delay. If ctx ends first, it returns the error of ctx.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// NextJitter returns between half and all of the next delay, so that callers that failed together do not return together.
func (b *Backoff) NextJitter() time.Duration {
	d := b.Next()
	return d/2 + rand.N(d/2+1)
}

// WaitJitter waits for NextJitter. If ctx ends first, it returns the error of ctx.
func (b *Backoff) WaitJitter(ctx context.Context) error { return Sleep(ctx, b.NextJitter()) }

// Reset makes Min the next delay.
func (b *Backoff) Reset() { b.last = 0 }
