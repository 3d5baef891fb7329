// Package every calls functions in regular intervals.
package every

import (
	"context"
	"time"
)

// Tick calls f at the end of each interval until ctx ends. It returns the error of ctx. An interval that ends while f
// runs has no call of its own.
func Tick(ctx context.Context, interval time.Duration, f func()) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			f()
		}
	}
}
