package allocnet

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
)

// Limits of the removal of networks that no allocation has.
const (
	removers     = 4 // removals at once
	firstRetry   = 30 * time.Second
	longestRetry = 10 * time.Minute
)

// leftovers are allocations whose network an earlier agent, or a plugin that failed, has left on the node. Run removes
// them one by one after the node is registered, because a CNI plugin may hang.
//
//	waiting ──Run──▶ removing ──done──▶ (none)
//	   ▲  │             └──fails──┐
//	   │  └──take by an allocation with the ID──▶ (none)
//	   └──────────────────────────┘
//
// An allocation with the ID of a leftover takes it over first, so that its network is not removed.
type leftovers struct {
	remove func(ctx context.Context, alloc string) error
	log    *slog.Logger

	mu  sync.Mutex
	ids map[string]chan struct{} // closed at the end of the removal; nil while it waits
	new wake.Signal              // there are further ones
}

func newLeftovers(remove func(ctx context.Context, alloc string) error, log *slog.Logger) *leftovers {
	return &leftovers{remove: remove, log: log, ids: map[string]chan struct{}{}, new: wake.New()}
}

// add lets Run remove the network of an allocation.
func (l *leftovers) add(alloc string) {
	l.mu.Lock()
	if _, found := l.ids[alloc]; !found {
		l.ids[alloc] = nil
	}
	l.mu.Unlock()
	l.new.Send()
}

// take ends the removal for an allocation that starts. It waits for one that has begun.
func (l *leftovers) take(ctx context.Context, alloc string) error {
	for {
		l.mu.Lock()
		removing := l.ids[alloc]
		if removing == nil {
			delete(l.ids, alloc)
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		select {
		case <-removing:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin marks a leftover as being removed. It returns false if it is taken.
func (l *leftovers) begin(alloc string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	removing, found := l.ids[alloc]
	if !found || removing != nil {
		return false
	}
	l.ids[alloc] = make(chan struct{})
	return true
}

// end ends a removal. What failed waits for the next one.
func (l *leftovers) end(alloc string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.ids[alloc])
	if l.ids[alloc] = nil; err == nil {
		delete(l.ids, alloc)
	}
}

// Run removes the leftovers, and again those that could not be removed, until ctx ends.
func (l *leftovers) Run(ctx context.Context) error {
	wait := firstRetry
	for {
		var retry <-chan time.Time
		if l.removeAll(ctx) {
			wait = firstRetry
		} else {
			retry = time.After(wait)
			wait = min(2*wait, longestRetry)
		}
		select {
		case <-l.new:
		case <-retry:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// removeAll removes what waits. It reports whether nothing remains.
func (l *leftovers) removeAll(ctx context.Context) bool {
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.ids))
	l.mu.Unlock()
	slots := make(chan struct{}, removers)
	var wg sync.WaitGroup
	for _, id := range ids {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return false
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if !l.begin(id) {
				return
			}
			err := l.remove(ctx, id)
			l.end(id, err)
			if err != nil && !errors.Is(err, context.Canceled) {
				l.log.Warn("remove the network that an allocation has left: it is tried again", "alloc", id, "err", err)
			}
		})
	}
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids) == 0
}
