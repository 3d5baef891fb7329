package allocrunner_test

import (
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/nomad"
)

// BenchmarkStart measures the overhead from a received allocation to its removal. The mock task
// itself takes no time.
func BenchmarkStart(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		w.run(allocation(nomad.JobTypeBatch, mockTask("main", map[string]any{"run_for": "0s"})))
	}
}

// BenchmarkSandboxed runs 100 sandboxed tasks in parallel to their end.
func BenchmarkSandboxed(b *testing.B) {
	w := processes(b)
	for b.Loop() {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				alloc := sized(allocation(nomad.JobTypeBatch, script("main", exec2.Name, "true")))
				r := w.runner(alloc)
				if err := r.Run(b.Context()); err != nil || r.State().ClientStatus != nomad.AllocClientStatusComplete {
					b.Errorf("Run() = %v, %s", err, r.State().ClientStatus)
				}
				if err := r.Destroy(b.Context()); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
