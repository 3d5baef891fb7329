package client

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// Of many events, the newest are kept. Those that no server has are sent again, before the newer ones.
func TestNodeEvents_Limit(t *testing.T) {
	e := newNodeEvents()
	for i := range 200 {
		e.emit(nomad.NodeEvent{Message: fmt.Sprint(i)})
	}
	first := e.take()
	if len(first) != maxNodeEvents || first[0].Message != "136" || first[63].Message != "199" || first[0].Timestamp.IsZero() {
		t.Fatalf("%d events from %q, want the last %d", len(first), first[0].Message, maxNodeEvents)
	}
	if got := e.take(); got != nil {
		t.Errorf("events %v are returned twice", got)
	}
	e.emit(nomad.NodeEvent{Message: "new"})
	e.putBack(first)
	again := e.take()
	if len(again) != maxNodeEvents || again[0].Message != "137" || again[63].Message != "new" {
		t.Errorf("%d events from %q to %q, want 137 to new", len(again), again[0].Message, again[len(again)-1].Message)
	}
}
