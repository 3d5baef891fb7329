package safefs

import (
	"context"
	"time"
)

// stuckPatience is how long Await waits for a call after its caller has given up.
const stuckPatience = 2 * time.Second

// Await runs a call that may reach a file system whose server does not answer: the kernel does not interrupt it then. If ctx has
// ended and the call does not end soon, Await returns the cause, and leaves the call to its goroutine. The call must be harmless
// when it goes on later.
func Await(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	soon := time.NewTimer(stuckPatience)
	defer soon.Stop()
	select {
	case err := <-done:
		return err
	case <-soon.C:
		return context.Cause(ctx)
	}
}
