//go:build linux && faults

package faults_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/e2e/faults"
)

// A leader that was stopped during an election does not know the new leader when it continues. It
// must not answer reads from its old state.
func TestStoppedLeaderServesNoStaleReads(t *testing.T) {
	c := start(t, 3, "")
	for round := range 3 {
		if err := faults.ReadOfStopped(t.Context(), c, int64(round)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}
