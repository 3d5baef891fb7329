package plan_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
)

// limit creates a quota for namespaces.
func (w *world) limit(limits quota.Resources, namespaces ...string) {
	w.t.Helper()
	w.Must(w.t, message.QuotaUpsertRequestType, &message.QuotaUpsertRequest{Quotas: []*quota.Spec{
		{Name: "q", Limits: []*quota.Limit{{Region: "global", RegionLimit: &limits}}}}})
	for _, name := range namespaces {
		w.Must(w.t, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: name, Quota: "q"}}})
	}
}

// jobIn registers a job in a namespace.
func (w *world) jobIn(namespace string, count int) *nomad.Job {
	j := w.Job(w.t, nomad.JobTypeBatch, count)
	own := *j
	own.Namespace, own.Region = namespace, "global"
	w.Must(w.t, message.JobRegisterRequestType, &message.JobRegisterRequest{Job: &own})
	return w.Snapshot().Job(nil, namespace, own.ID)
}

func TestQuota(t *testing.T) {
	w := start(t)
	w.limit(quota.Resources{Allocs: new(2)}, "a", "b")
	a, b := w.jobIn("a", 3), w.jobIn("b", 3)
	one, two := w.Node(t), w.Node(t)
	first := testlog.NewAlloc(a, one)
	// The third allocation exceeds the quota: the second node is omitted, and RefreshIndex is set.
	r := w.submit(place(w.plan(a), first, testlog.NewAlloc(a, two), testlog.NewAlloc(a, two)))
	nodes := len(r.NodeAllocation)
	if nodes != 1 || r.RefreshIndex == 0 || len(r.RejectedNodes) != 0 {
		t.Fatalf("placed on %d nodes, refresh at %d, rejected %v", nodes, r.RefreshIndex, r.RejectedNodes)
	}
	for live := range w.Snapshot().AllocsByJob(nil, "a", a.ID) {
		first = live
	}
	w.fillUp(t, b, one)
	// A stop frees quota, on any node and in any namespace that shares it.
	p := place(w.plan(a), testlog.NewAlloc(a, one))
	p.NodeUpdate[first.NodeID] = append(p.NodeUpdate[first.NodeID], stopping(first))
	if r := w.submit(p); len(r.NodeAllocation) != 1 || r.RefreshIndex != 0 {
		t.Errorf("in place of another: placed on %d nodes, refresh at %d", len(r.NodeAllocation), r.RefreshIndex)
	}
	// An all-at-once plan is committed in full or not at all.
	p = place(w.plan(b), testlog.NewAlloc(b, two))
	p.AllAtOnce = true
	if r := w.submit(p); len(r.NodeAllocation) != 0 || r.RefreshIndex == 0 {
		t.Errorf("all at once: placed on %d nodes, refresh at %d", len(r.NodeAllocation), r.RefreshIndex)
	}
	w.limit(quota.Resources{Allocs: new(3)})
	if r := w.submit(place(w.plan(b), testlog.NewAlloc(b, two))); len(r.NodeAllocation) != 1 {
		t.Error("a larger quota has no room")
	}
	if got := w.Snapshot().QuotaUsed(nil, "q"); got.Allocs != 3 {
		t.Errorf("%d allocations are counted, want 3", got.Allocs)
	}
}

// fillUp places allocations until the quota is exhausted.
func (w *world) fillUp(t *testing.T, j *nomad.Job, n *nomad.Node) {
	t.Helper()
	for range 10 {
		if r := w.submit(place(w.plan(j), testlog.NewAlloc(j, n))); len(r.NodeAllocation) == 0 {
			return
		}
	}
	t.Fatal("the quota is never exhausted")
}

func stopping(a *nomad.Allocation) *nomad.Allocation {
	stopped := *a
	stopped.DesiredStatus = nomad.AllocDesiredStatusStop
	return &stopped
}

// TestQuota_RandomHistory runs many schedulers of two namespaces on stale views.
func TestQuota_RandomHistory(t *testing.T) {
	const workers, rounds, most, cpuLimit = 8, 30, 10, 1500
	w := start(t)
	w.limit(quota.Resources{Allocs: new(most), CPU: new(cpuLimit)}, "a", "b")
	var nodes []*nomad.Node
	for range 3 {
		nodes = append(nodes, w.Node(t, func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 1_000_000 }))
	}
	jobs := make([]*nomad.Job, workers)
	for i := range jobs {
		jobs[i] = w.jobIn([]string{"a", "b"}[i%2], rounds)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var placed, refused int
	for i, j := range jobs {
		wg.Go(func() {
			for round := range rounds {
				p := w.plan(j)
				asked := 0
				for k := range 1 + round%3 {
					place(p, testlog.NewAlloc(j, nodes[(i+k+round)%3], cpu(int64(50+(i*31+round*17)%200))))
					asked++
				}
				for a := range w.Snapshot().AllocsByJob(nil, j.Namespace, j.ID) {
					if round%3 == 2 && !a.TerminalStatus() {
						p.NodeUpdate[a.NodeID] = append(p.NodeUpdate[a.NodeID], stopping(a))
					}
				}
				r, err := w.applier.Submit(context.Background(), p)
				if err != nil {
					t.Errorf("Submit() = %v", err)
					return
				}
				got := 0
				for _, list := range r.NodeAllocation {
					got += len(list)
				}
				mu.Lock()
				placed, refused = placed+got, refused+asked-got
				mu.Unlock()
				if why := w.overQuota(most, cpuLimit); why != "" {
					t.Error(why)
				}
			}
		})
	}
	wg.Wait()
	if placed <= most || refused == 0 {
		t.Errorf("%d placed, %d refused: the quota was never contended", placed, refused)
	}
}

// overQuota compares the usage of the live allocations with the stored usage and the limits.
func (w *world) overQuota(most, cpuLimit int64) string {
	snap := w.Snapshot()
	var sum quota.Amount
	for a := range snap.Allocs(nil) {
		sum.Add(quota.Of(a), 1)
	}
	reserved := snap.QuotaUsed(nil, "q")
	if sum != reserved || sum.Allocs > most || sum.CPU > cpuLimit {
		return fmt.Sprintf("%+v are held, %+v are counted", sum, reserved)
	}
	return ""
}
