package allocrunner_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// BenchmarkStart is our own work from an allocation received to its task having
// run and been removed; the mock task itself takes no time.
func BenchmarkStart(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		w.run(allocation(nomad.JobTypeBatch, mockTask("main", map[string]any{"run_for": "0s"})))
	}
}
