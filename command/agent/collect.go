package agent

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage a server may gather before it is collected: each write makes some dozens of
// kilobytes of it, and going over all state for the sake of a few megabytes costs a quarter of
// the CPU time. It is leastGarbage while little is in use, then as much as twice of what is, up to
// mostGarbage. With more of it, memory that the process has not touched before costs as much:
// the kernel clears each page, and a virtual machine's host finds it first.
const (
	leastGarbage = 96 << 20
	mostGarbage  = 256 << 20
)

// The percentage (runtime/debug.SetGCPercent) is not below Go's own, between leastGarbage and
// mostGarbage the usual one, and bounded.
const (
	leastPercent = 100
	usualPercent = 200
	mostPercent  = 1000
)

// paceCollector lets the collector begin when there is as much garbage as is allowed, until ctx
// ends. What GOGC or GOMEMLIMIT say is left as it is.
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
	live = max(live, 1)
	garbage := max(leastGarbage, min(live*usualPercent/100, mostGarbage))
	return max(leastPercent, min(int(garbage*100/live)/50*50, mostPercent))
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
