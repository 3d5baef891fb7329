package client_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The servers restore an older state. Ended allocations are reported again, unlisted ones are
// stopped, and older versions are applied.
func TestStatusesAreSentAgainAfterRestore(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	ended, collected, runs, later := alloc(map[string]any{"run_for": "1ms"}), alloc(map[string]any{"run_for": "1ms", "exit_code": 3}),
		alloc(map[string]any{"run_for": "1h"}), alloc(map[string]any{"run_for": "1h"})
	for _, a := range []*nomad.Allocation{ended, collected, runs, later} {
		f.place(a)
	}
	f.until(t, "all have reached their state", func() bool {
		return status(f, ended) == nomad.AllocClientStatusComplete && status(f, collected) == nomad.AllocClientStatusFailed &&
			status(f, runs) == nomad.AllocClientStatusRunning && status(f, later) == nomad.AllocClientStatusRunning
	})
	f.until(t, "the allocation is collected", func() bool {
		return n.RPC().Call(t.Context(), "Allocations.GarbageCollect", &message.AllocSpecificRequest{AllocID: collected.ID}, &message.GenericResponse{}) == nil
	})
	restored := func(at uint64) {
		f.edit(func() {
			clear(f.updated)
			f.index, f.restoredAt = at, at+1
			delete(f.allocs, later.ID)
		})
		f.until(t, "the ends are reported again", func() bool {
			return status(f, ended) == nomad.AllocClientStatusComplete && status(f, collected) == nomad.AllocClientStatusFailed
		})
		f.until(t, "the running allocation is reported again", func() bool { return status(f, runs) == nomad.AllocClientStatusRunning })
		f.until(t, "the unlisted allocation is stopped", func() bool { return !n.HasAlloc(later.ID) })
	}
	restored(1 << 16)
	f.mu.Lock()
	if ts := f.updated[collected.ID].TaskStates["main"]; ts == nil || !ts.Failed {
		t.Errorf("task state = %+v", ts)
	}
	gets := f.updates
	f.mu.Unlock()
	f.edit(func() {})
	f.place(alloc(map[string]any{"run_for": "1h"}))
	f.until(t, "another allocation is reported", func() bool { return f.updates > gets })
	f.mu.Lock()
	_, again := f.updated[ended.ID]
	f.mu.Unlock()
	if !again || n.HasAlloc(collected.ID) {
		t.Error("the allocation is run again")
	}

	// The index of a new cluster may be much lower.
	restored(100)
}

// Each query for allocations carries how many the last applied answer had, so that the servers answer at once if some were
// deleted meanwhile. A first query carries none.
func TestPull_Count(t *testing.T) {
	f := startServer(t)
	start(t, config(nodeDir(t), f.addr()))
	first, second := alloc(map[string]any{"run_for": "1h"}), alloc(map[string]any{"run_for": "1h"})
	f.edit(func() {
		for _, a := range []*nomad.Allocation{first, second} {
			a.AllocModifyIndex = f.index
			f.allocs[a.ID] = a
		}
	})
	asks := func(count int) {
		f.until(t, fmt.Sprintf("the node asks with a count of %d", count), func() bool {
			return len(f.counts) > 0 && f.counts[len(f.counts)-1] == count
		})
	}
	asks(2)
	f.edit(func() { delete(f.allocs, first.ID) })
	asks(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts[0] != 0 {
		t.Errorf("the first query has a count of %d, want 0", f.counts[0])
	}
}

// A listed allocation with a lower index than on the node is fetched after a restore only.
func TestOlderVersionIsApplied(t *testing.T) {
	f := startServer(t)
	start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "the allocation runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	f.edit(func() {
		older := *a
		older.AllocModifyIndex, older.DesiredStatus = 1, nomad.AllocDesiredStatusStop
		f.allocs[a.ID] = &older
		f.restoredAt = f.index + 1
	})
	f.until(t, "the allocation is stopped", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
}

// The servers refuse the token, and the introduction token was already used: the node sends its
// secret.
func TestRefusedCredentialIsReplaced(t *testing.T) {
	f := startServer(t)
	cfg := config(nodeDir(t), f.addr())
	cfg.IntroToken = "intro"
	n := start(t, cfg)
	<-n.Ready()
	var token string
	f.edit(func() {
		for known := range f.tokens {
			token = known
		}
		clear(f.tokens) // as in a state without the key
		f.refuse = []string{token, "intro"}
	})
	f.until(t, "the node is back", func() bool { return len(f.registers) == 2 && len(f.tokens) == 1 && f.status == nomad.NodeStatusReady })
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.refused, []string{token, "intro"}) || f.registers[1] != "" {
		t.Errorf("%d registrations were refused, the accepted one had %d bytes", len(f.refused), len(f.registers[1]))
	}
}

// A node that was never registered keeps sending its introduction token.
func TestNewNodeKeepsIntroductionToken(t *testing.T) {
	f := startServer(t)
	f.refuse = []string{"intro"}
	cfg := config(nodeDir(t), f.addr())
	cfg.IntroToken = "intro"
	n := start(t, cfg)
	f.until(t, "the node was refused", func() bool { return len(f.refused) >= 4 })
	f.edit(func() { f.refuse = nil })
	<-n.Ready()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.registers[0] != "intro" {
		t.Error("it registered without an introduction token")
	}
}
