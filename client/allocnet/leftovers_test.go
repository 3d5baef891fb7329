package allocnet

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hangingRemoval removes networks. Those in hangs end with ctx or release only.
type hangingRemoval struct {
	hangs   map[string]chan struct{}
	mu      sync.Mutex
	fails   map[string]int
	removed []string
}

func (h *hangingRemoval) remove(ctx context.Context, alloc string) error {
	if release := h.hangs[alloc]; release != nil {
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails[alloc] > 0 {
		h.fails[alloc]--
		return errors.New("plugin failed")
	}
	h.removed = append(h.removed, alloc)
	return nil
}

func (h *hangingRemoval) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.removed))
}

// A removal that hangs delays no other one, a failed one is tried again, and an allocation with the ID of a leftover
// keeps its network.
func TestLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := &hangingRemoval{hangs: map[string]chan struct{}{"hangs": release}, fails: map[string]int{"fails": 2}}
		l := newLeftovers(h.remove, slog.New(slog.DiscardHandler))
		for _, id := range []string{"hangs", "fails", "taken", "a", "b", "c", "d", "e"} {
			l.add(id)
		}
		if err := l.take(t.Context(), "taken"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		synctest.Wait()
		if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(h.all(), want) {
			t.Errorf("removed beside a plugin that hangs: %v, want %v", h.all(), want)
		}
		taken := make(chan error, 1)
		go func() { taken <- l.take(t.Context(), "hangs") }()
		synctest.Wait()
		select {
		case err := <-taken:
			t.Errorf("take() did not wait for the removal: %v", err)
		default:
		}
		close(release)
		if err := <-taken; err != nil {
			t.Error(err)
		}
		time.Sleep(firstRetry + 2*firstRetry + time.Second) // time of synctest
		if want := []string{"a", "b", "c", "d", "e", "fails", "hangs"}; !slices.Equal(h.all(), want) {
			t.Errorf("removed = %v, want %v", h.all(), want)
		}
		l.add("later") // a failed removal of this agent
		synctest.Wait()
		if !slices.Contains(h.all(), "later") {
			t.Error("a leftover of this agent is not removed")
		}
		if len(l.ids) != 0 {
			t.Errorf("remaining = %v", slices.Collect(maps.Keys(l.ids)))
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	})
}
