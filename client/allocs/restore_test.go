package allocs

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
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

func (*restoring) LastBeat() time.Time   { return time.Time{} }
func (*restoring) PullFailed(error)      {}
func (*restoring) StateReplaced()        {}
func (*restoring) AbandonNetwork(string) {}

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
