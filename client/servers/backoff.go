package servers

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is an exponential delay with jitter.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration
}

// Wait waits between half and all of the next duration.
func (b *Backoff) Wait(ctx context.Context) error {
	b.next = min(max(b.Min, 2*b.next), b.Max)
	t := time.NewTimer(b.next/2 + rand.N(b.next/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Reset starts again from the minimum after a success.
func (b *Backoff) Reset() { b.next = 0 }
