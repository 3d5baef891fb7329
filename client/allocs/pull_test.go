package allocs_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The servers restore an older state. Ended allocations are reported again, unlisted ones are
// stopped, and older versions are applied.
func TestPull_StateRestored(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	ended, collected, runs, later := clienttest.Alloc(map[string]any{"run_for": "1ms"}), clienttest.Alloc(map[string]any{"run_for": "1ms",
		"exit_code": 3}),
		clienttest.Alloc(map[string]any{"run_for": "1h"}), clienttest.Alloc(map[string]any{"run_for": "1h"})
	for _, a := range []*nomad.Allocation{ended, collected, runs, later} {
		f.Place(a)
	}
	f.Until(t, "all have reached their state", func() bool {
		return f.Status(ended) == nomad.AllocClientStatusComplete && f.Status(collected) == nomad.AllocClientStatusFailed &&
			f.Status(runs) == nomad.AllocClientStatusRunning && f.Status(later) == nomad.AllocClientStatusRunning
	})
	f.Until(t, "the allocation is collected", func() bool {
		return n.RPC().Call(t.Context(), "Allocations.GarbageCollect", &message.AllocSpecificRequest{AllocID: collected.ID},
			&message.GenericResponse{}) == nil
	})
	restored := func(at uint64) {
		f.Edit(func() {
			clear(f.Updated)
			f.Index, f.RestoredAt = at, at+1
			delete(f.Allocs, later.ID)
		})
		f.Until(t, "the ends are reported again", func() bool {
			return f.Status(ended) == nomad.AllocClientStatusComplete && f.Status(collected) == nomad.AllocClientStatusFailed
		})
		f.Until(t, "the running allocation is reported again", func() bool { return f.Status(runs) == nomad.AllocClientStatusRunning })
		f.Until(t, "the unlisted allocation is stopped", func() bool { return !n.HasAlloc(later.ID) })
	}
	restored(1 << 16)
	f.Mu.Lock()
	if ts := f.Updated[collected.ID].TaskStates["main"]; ts == nil || !ts.Failed {
		t.Errorf("task state = %+v", ts)
	}
	gets := f.Updates
	f.Mu.Unlock()
	f.Edit(func() {})
	f.Place(clienttest.Alloc(map[string]any{"run_for": "1h"}))
	f.Until(t, "another allocation is reported", func() bool { return f.Updates > gets })
	f.Mu.Lock()
	_, again := f.Updated[ended.ID]
	f.Mu.Unlock()
	if !again || n.HasAlloc(collected.ID) {
		t.Error("the allocation is run again")
	}

	// The index of a new cluster may be much lower.
	restored(100)
}

// Each query for allocations carries how many the last applied answer had, so that the servers answer at once if some were
// deleted meanwhile. A first query carries none.
func TestPull_Count(t *testing.T) {
	f := clienttest.StartServer(t)
	clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	first, second := clienttest.Alloc(map[string]any{"run_for": "1h"}), clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Edit(func() {
		for _, a := range []*nomad.Allocation{first, second} {
			a.AllocModifyIndex = f.Index
			f.Allocs[a.ID] = a
		}
	})
	asks := func(count int) {
		f.Until(t, fmt.Sprintf("the node asks with a count of %d", count), func() bool {
			return len(f.Counts) > 0 && f.Counts[len(f.Counts)-1] == count
		})
	}
	asks(2)
	f.Edit(func() { delete(f.Allocs, first.ID) })
	asks(1)
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Counts[0] != 0 {
		t.Errorf("the first query has a count of %d, want 0", f.Counts[0])
	}
}

// A listed allocation with a lower index than on the node is fetched after a restore only.
func TestPull_OlderVersion(t *testing.T) {
	f := clienttest.StartServer(t)
	clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	f.Edit(func() {
		older := *a
		older.AllocModifyIndex, older.DesiredStatus = 1, nomad.AllocDesiredStatusStop
		f.Allocs[a.ID] = &older
		f.RestoredAt = f.Index + 1
	})
	f.Until(t, "the allocation is stopped", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
}
