package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// BenchmarkCSI places allocations with CSI volumes on as many nodes: with one volume that all share, or with one each. The cost of a
// placement must not grow with the number of allocations.
func BenchmarkCSI(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("shared/%d", n), func(b *testing.B) { placeCSI(b, n, "+data") })
		b.Run(fmt.Sprintf("per_alloc/%d", n), func(b *testing.B) { placeCSI(b, n, "data") })
	}
}

func placeCSI(b *testing.B, n int, source string) {
	w := newWorld(b)
	many := func(v *csi.Volume) {
		v.RequestedCapabilities = []*csi.Capability{{AccessMode: nomad.VolumeMultiNodeMultiWriter}}
	}
	w.addCSI("data", many)
	for i := range n {
		w.addNode(fmt.Sprintf("node-%04d", i), runs(limit(8)))
		w.addCSI(fmt.Sprintf("data[%d]", i), many)
	}
	w.register(job(nomad.JobTypeService, n, mounts(source), func(j *nomad.Job) { j.TaskGroups[0].Volumes[source].PerAlloc = source == "data" }))
	state := csiWorld{w}
	b.ResetTimer()
	began := cpuTime(b)
	for range b.N {
		p := &dryPlanner{}
		s, err := scheduler.New(nomad.JobTypeService, state, p, scheduler.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Process(context.Background(), w.eval()); err != nil {
			b.Fatal(err)
		}
		if p.placed != n {
			b.Fatalf("placed %d, want %d", p.placed, n)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/float64(n*b.N), "cpu-ns/placement")
}

// csiWorld is a world whose nodes have no volumes yet, which it knows without a search.
type csiWorld struct{ *world }

func (csiWorld) CSIVolumesOnNode(string) map[string]map[string]bool {
	return map[string]map[string]bool{}
}
