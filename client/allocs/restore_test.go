package allocs

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// restoring is a node that restores allocations, and cannot run them.
type restoring struct {
	set   *Set
	begun []int // the number of allocations that have begun, when each runner was made
}

func (n *restoring) NewRunner(*nomad.Allocation) (*allocrunner.Runner, error) {
	n.set.mu.Lock()
	defer n.set.mu.Unlock()
	n.begun = append(n.begun, len(n.set.entries)+len(n.set.gone))
	return nil, errors.New("no runner")
}

func (*restoring) LastBeat() time.Time { return time.Time{} }
func (*restoring) PullFailed(error)    {}
func (*restoring) StateReplaced()      {}
func (*restoring) Abandon(string)      {}

// TestSet_RestoreBeforeRun checks that no allocation begins before all have read their state. A task that starts earlier
// can get the user of one that is restored later.
func TestSet_RestoreBeforeRun(t *testing.T) {
	n := &restoring{}
	n.set = New(Config{Node: n, Log: slog.New(slog.DiscardHandler)})
	defer n.set.Close()
	n.set.Restore([]*nomad.Allocation{{ID: "a"}, {ID: "b"}, {ID: "c"}})
	for i, count := range n.begun {
		if count != 0 {
			t.Errorf("%d allocations had begun when the state of number %d was read, want 0", count, i+1)
		}
	}
	if len(n.begun) != 3 || len(n.set.gone) != 3 {
		t.Errorf("%d runners were made, %d allocations have ended, want 3 and 3", len(n.begun), len(n.set.gone))
	}
}

// TestSet_Had checks that an allocation of the previous agent counts also after it was removed.
func TestSet_Had(t *testing.T) {
	db, err := state.Open(state.Config{Dir: t.TempDir(), NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the test is over
	if err := db.PutAlloc(&nomad.Allocation{ID: "old"}); err != nil {
		t.Fatal(err)
	}
	n := &restoring{}
	n.set = New(Config{Node: n, DB: db, Log: slog.New(slog.DiscardHandler)})
	defer n.set.Close()
	n.set.Stored()
	n.set.entries["new"] = &Entry{ID: "new"}
	for id, want := range map[string]bool{"old": true, "new": true, "other": false} {
		if got := n.set.Had(id); got != want {
			t.Errorf("Had(%s) = %v, want %v", id, got, want)
		}
	}
}
