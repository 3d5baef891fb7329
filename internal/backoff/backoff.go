// Package backoff waits between attempts. It has no jitter: callers for whom it matters add their own.
package backoff

import (
	"context"
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

// Reset makes Min the next delay.
func (b *Backoff) Reset() { b.last = 0 }
