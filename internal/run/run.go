// Package run runs several long-lived functions as one.
//
//	running ──all returned──▶ done
//	   └──one failed, or ctx ended──▶ the context of all ends ──all returned──▶ done
//
// It starts one goroutine for each function and returns when none is left.
package run

import (
	"context"
	"sync"
)

// All runs every function until all have returned. The first error ends the
// context that the others got, and is returned. A function that returns nil is
// done and ends nobody else.
func All(ctx context.Context, fns ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	var once sync.Once
	var first error
	for _, fn := range fns {
		wait.Go(func() {
			if err := fn(ctx); err != nil {
				once.Do(func() { first = err })
				cancel(err)
			}
		})
	}
	wait.Wait()
	return first
}
