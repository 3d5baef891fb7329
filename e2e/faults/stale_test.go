//go:build linux && faults

package faults_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/e2e/faults"
)

// A leader that was stopped while another was elected does not know it when it goes
// on: what it is asked at that moment must not be answered out of what it had.
func TestStoppedLeaderServesNothingOld(t *testing.T) {
	c := start(t, 3, "")
	for round := range 3 {
		if err := faults.ReadOfStopped(t.Context(), c, int64(round)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}
