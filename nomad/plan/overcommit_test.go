package plan_test

import (
	"context"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
)

// TestApplier_Overcommit runs many schedulers on the same stale view.
func TestApplier_Overcommit(t *testing.T) {
	const nodes, workers, rounds = 4, 8, 25
	w := start(t)
	var ids []string
	for range nodes {
		ids = append(ids, w.Node(t).ID)
	}
	jobs := make([]*nomad.Job, workers)
	for i := range jobs {
		jobs[i] = w.Job(t, nomad.JobTypeBatch, 1)
	}
	var mu sync.Mutex
	placed, rejected := map[string]bool{}, 0
	for round := range rounds {
		// All plans are made before the first is submitted.
		var plans []*nomad.Plan
		for i := range workers {
			p := w.plan(jobs[i])
			for k := range 3 {
				node := w.Snapshot().Node(nil, ids[(i*7+round*3+k)%nodes])
				place(p, testlog.NewAlloc(jobs[i], node, cpu(int64(100+(i*31+round*17)%300))))
			}
			for a := range w.Snapshot().AllocsByJob(nil, jobs[i].Namespace, jobs[i].ID) {
				if round%4 == 3 && !a.TerminalStatus() {
					p.NodeUpdate[a.NodeID] = append(p.NodeUpdate[a.NodeID], a)
				}
			}
			plans = append(plans, p)
		}
		var wg sync.WaitGroup
		for _, p := range plans {
			wg.Go(func() {
				r, err := w.applier.Submit(context.Background(), p)
				if err != nil {
					t.Errorf("Submit() = %v", err)
					return
				}
				mu.Lock()
				rejected += len(r.RejectedNodes)
				for _, allocs := range r.NodeAllocation {
					for _, a := range allocs {
						placed[a.ID] = true
					}
				}
				mu.Unlock()
				w.checkNodes(ids)
			})
		}
		wg.Wait()
	}
	stored := 0
	for range w.Snapshot().Allocs(nil) {
		stored++
	}
	if stored != len(placed) {
		t.Errorf("%d allocations in state, %d in results", stored, len(placed))
	}
	if rejected == 0 || len(placed) == 0 {
		t.Errorf("%d placed, %d rejected: the nodes were never contended", len(placed), rejected)
	}
}

// checkNodes sums the resources of the live allocations of each node.
func (w *world) checkNodes(ids []string) {
	snap := w.Snapshot()
	for _, id := range ids {
		var sum int64
		for a := range snap.AllocsByNode(nil, id) {
			if !a.TerminalStatus() {
				sum += a.AllocatedResources.Tasks["t"].Cpu.CpuShares
			}
		}
		if sum > 4000 {
			w.t.Errorf("allocations on node %s hold %d MHz of 4000", id, sum)
		}
	}
}

// BenchmarkApply places the allocations of one large job.
func BenchmarkApply(b *testing.B) {
	const count, nodes = 2000, 20
	for b.Loop() {
		b.StopTimer()
		w := start(b)
		job := w.Job(b, nomad.JobTypeBatch, count)
		p := w.plan(job)
		for range nodes {
			node := w.Node(b, func(n *nomad.Node) {
				n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB = 1_000_000, 1_000_000
			})
			for range count / nodes {
				a := testlog.NewAlloc(job, node)
				a.Job = nil
				place(p, a)
			}
		}
		p.SnapshotIndex = w.Snapshot().Index()
		b.StartTimer()
		if r := w.submit(p); len(r.RejectedNodes) != 0 {
			b.Fatalf("rejected %v", r.RejectedNodes)
		}
		b.StopTimer()
		w.stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "allocs/s")
}
