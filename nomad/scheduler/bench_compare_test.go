package scheduler_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// BenchmarkCompare places 10,000 allocations of a job, which compares nodes by a spread and an affinity, or does not.
// It reports the CPU time of a placement: a busy machine changes it less than a rate.
func BenchmarkCompare(b *testing.B) {
	const count = 10_000
	for _, compared := range []bool{false, true} {
		for _, nodes := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("compared=%v/nodes=%d", compared, nodes), func(b *testing.B) {
				w := racks(b, nodes)
				w.register(job(nomad.JobTypeService, count, nearQuota, func(j *nomad.Job) {
					if compared {
						j.Spreads = []*nomad.Spread{{Attribute: "${meta.rack}", Weight: 50}}
						j.Affinities = []*nomad.Affinity{{LTarget: "${meta.rack}", Operand: "set_contains_any", RTarget: "r0,r1,r2,r3", Weight: 50}}
					}
				}))
				began := cpuTime(b)
				for range b.N {
					p := &dryPlanner{}
					s, err := scheduler.New(nomad.JobTypeService, w, p, scheduler.Options{})
					if err != nil {
						b.Fatal(err)
					}
					if err := s.Process(context.Background(), w.eval()); err != nil {
						b.Fatal(err)
					}
					if p.placed != count {
						b.Fatalf("placed %d, want %d", p.placed, count)
					}
				}
				b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/float64(count*b.N), "cpu-ns/placement")
			})
		}
	}
}

// racks is a world of large nodes in 40 racks.
func racks(b *testing.B, nodes int) *world {
	w := newWorld(b)
	for i := range nodes {
		w.addNode(fmt.Sprintf("node-%05d", i), func(n *nomad.Node) {
			n.NodeResources.Cpu.CpuShares = 16_000
			n.NodeResources.Memory.MemoryMB = 64_000
			n.Meta["rack"] = fmt.Sprintf("r%d", i%40)
		})
	}
	return w
}

// cpuTime returns the CPU time of the process so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
