package agent

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// serverGarbage is how much garbage a server may gather before it is collected, also
// while little is in use: each write makes some dozens of kilobytes of it, and going
// over all state for the sake of a few megabytes costs a quarter of the CPU time.
const serverGarbage = 256 << 20

// Bounds of the percentage (runtime/debug.SetGCPercent): not below Go's own.
const (
	leastPercent = 100
	mostPercent  = 1000
)

// paceCollector lets the collector begin after serverGarbage as long as less than that
// is in use, until ctx ends. What GOGC or GOMEMLIMIT say is left as it is.
func paceCollector(ctx context.Context) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	before := debug.SetGCPercent(mostPercent)
	defer debug.SetGCPercent(before)
	last := mostPercent
	for collected := afterCollections(ctx); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-collected:
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if next := percentFor(live[0].Value.Uint64()); next != last {
			debug.SetGCPercent(next)
			last = next
		}
	}
}

// percentFor is the percentage for what is in use, in steps: each change stops the
// process for a moment.
func percentFor(live uint64) int {
	percent := int(serverGarbage * 100 / max(live, 1))
	return max(leastPercent, min(percent/50*50, mostPercent))
}

// afterCollections returns a channel that holds a value after each collection.
func afterCollections(ctx context.Context) <-chan struct{} {
	collected := make(chan struct{}, 1)
	type unused struct{ _ *int } // a pointer: it must not share its memory with another value
	var again func(*unused)
	again = func(u *unused) {
		select {
		case collected <- struct{}{}:
		default: // a value is there already
		}
		if ctx.Err() == nil {
			runtime.SetFinalizer(u, again)
		}
	}
	runtime.SetFinalizer(&unused{}, again)
	return collected
}
