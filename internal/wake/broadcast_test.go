package wake_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/wake"
)

// TestBroadcast checks that a Send wakes all receivers before it, and none after it.
func TestBroadcast(t *testing.T) {
	var b wake.Broadcast
	b.Send()
	first, second := b.Next(), b.Next()
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	if closed(first) || closed(second) {
		t.Error("woken before Send")
	}
	b.Send()
	if !closed(first) || !closed(second) || closed(b.Next()) {
		t.Error("Send must wake both receivers and no later one")
	}
}
