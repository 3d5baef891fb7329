package client_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// The servers go back to an older state: what ended since is told again, what they
// don't list is stopped, what they know in an older form is taken over.
func TestServersThatForgotAreToldAgain(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	ended, collected, runs, later := alloc(map[string]any{"run_for": "1ms"}), alloc(map[string]any{"run_for": "1ms", "exit_code": 3}),
		alloc(map[string]any{"run_for": "1h"}), alloc(map[string]any{"run_for": "1h"})
	for _, a := range []*nomad.Allocation{ended, collected, runs, later} {
		f.place(a)
	}
	f.until(t, "all have come so far", func() bool {
		return status(f, ended) == nomad.AllocClientStatusComplete && status(f, collected) == nomad.AllocClientStatusFailed &&
			status(f, runs) == nomad.AllocClientStatusRunning && status(f, later) == nomad.AllocClientStatusRunning
	})
	f.until(t, "it is collected", func() bool {
		return n.RPC().Call(t.Context(), "Allocations.GarbageCollect", &nomad.AllocSpecificRequest{AllocID: collected.ID}, &nomad.GenericResponse{}) == nil
	})
	restored := func(at uint64) {
		f.edit(func() {
			clear(f.updated)
			f.index, f.restoredAt = at, at+1
			delete(f.allocs, later.ID)
		})
		f.until(t, "the ends are told again", func() bool {
			return status(f, ended) == nomad.AllocClientStatusComplete && status(f, collected) == nomad.AllocClientStatusFailed
		})
		f.until(t, "what runs is told again", func() bool { return status(f, runs) == nomad.AllocClientStatusRunning })
		f.until(t, "what is not listed is stopped", func() bool { return !n.HasAlloc(later.ID) })
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
	f.until(t, "another one runs", func() bool { return f.updates > gets })
	f.mu.Lock()
	_, again := f.updated[ended.ID]
	f.mu.Unlock()
	if !again || n.HasAlloc(collected.ID) {
		t.Error("it is run again")
	}

	// A cluster that was built anew may be far behind.
	restored(100)
}

// What is listed with a lower index than the node has is fetched after a restore,
// and only then.
func TestOlderFormIsTakenOver(t *testing.T) {
	f := startServer(t)
	start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "it runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	f.edit(func() {
		older := *a
		older.AllocModifyIndex, older.DesiredStatus = 1, nomad.AllocDesiredStatusStop
		f.allocs[a.ID] = &older
		f.restoredAt = f.index + 1
	})
	f.until(t, "it is stopped", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
}

// The servers refuse the token, and know the introduction as used up: the node
// shows its secret.
func TestRefusedProofMakesWayForTheNext(t *testing.T) {
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
		clear(f.tokens) // of a state that lacks the key
		f.refuse = []string{token, "intro"}
	})
	f.until(t, "the node is back", func() bool { return len(f.registers) == 2 && len(f.tokens) == 1 && f.status == nomad.NodeStatusReady })
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.refused, []string{token, "intro"}) || f.registers[1] != "" {
		t.Errorf("%d registrations were refused, the one that was taken showed %d bytes", len(f.refused), len(f.registers[1]))
	}
}

// A node that never was in insists on its introduction.
func TestNewNodeInsistsOnItsIntroduction(t *testing.T) {
	f := startServer(t)
	f.refuse = []string{"intro"}
	cfg := config(nodeDir(t), f.addr())
	cfg.IntroToken = "intro"
	n := start(t, cfg)
	f.until(t, "it was refused", func() bool { return len(f.refused) >= 4 })
	f.edit(func() { f.refuse = nil })
	<-n.Ready()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.registers[0] != "intro" {
		t.Error("it came in without an introduction")
	}
}
