package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// BenchmarkPlace2000 places 2,000 allocations of one job.
func BenchmarkPlace2000(b *testing.B) {
	for _, nodes := range []int{1, 100} {
		for _, withPorts := range []bool{false, true} {
			b.Run(fmt.Sprintf("nodes=%d/ports=%v", nodes, withPorts), func(b *testing.B) {
				placeMany(b, nodes, withPorts)
			})
		}
	}
	for _, nodes := range []int{100, 5000} {
		for _, compared := range []bool{false, true} {
			b.Run(fmt.Sprintf("nodes=%d/spread=%v", nodes, compared), func(b *testing.B) {
				placeMany(b, nodes, false, func(w *world) { w.service(compared) })
			})
		}
	}
	b.Run("nodes=100/quota", func(b *testing.B) {
		placeMany(b, 100, false, func(w *world) { w.limited(quota.Resources{CPU: new(1 << 30), Allocs: new(5000)}) })
	})
}

func placeMany(b *testing.B, nodes int, withPorts bool, edit ...func(*world)) {
	const count = 2000
	w := newWorld(b)
	for i := range nodes {
		w.addNode(fmt.Sprintf("node-%03d", i), func(n *nomad.Node) {
			n.NodeResources.Cpu.CpuShares = 1_000_000
			n.NodeResources.Memory.MemoryMB = 1_000_000
		})
	}
	w.register(job(nomad.JobTypeBatch, count, nearQuota, func(j *nomad.Job) {
		if withPorts {
			j.TaskGroups[0].Networks = nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "p"}}}}
		}
	}))
	for _, f := range edit {
		f(w)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		p := &dryPlanner{}
		s, err := scheduler.New(w.jobs["j"].Type, w, p, scheduler.Options{})
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
	b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "placements/s")
}

// service makes the job a service, with or without a spread and an affinity, which compare nodes.
func (w *world) service(compared bool) {
	j := w.jobs["j"]
	j.Type = nomad.JobTypeService
	if compared {
		j.Spreads = []*nomad.Spread{{Attribute: "${node.datacenter}", Weight: 100}}
		j.Affinities = []*nomad.Affinity{{LTarget: "${attr.cpu.arch}", Operand: "=", RTarget: "amd64", Weight: 50}}
	}
}

// dryPlanner commits every plan and stores nothing.
type dryPlanner struct{ placed int }

func (p *dryPlanner) SubmitPlan(_ context.Context, plan *nomad.Plan) (*nomad.PlanResult, scheduler.State, error) {
	for _, list := range plan.NodeAllocation {
		p.placed += len(list)
	}
	return &nomad.PlanResult{NodeUpdate: plan.NodeUpdate, NodeAllocation: plan.NodeAllocation}, nil, nil
}
func (p *dryPlanner) FinishEval(context.Context, *nomad.Evaluation, ...*nomad.Evaluation) error {
	return nil
}
func (p *dryPlanner) CreateEval(context.Context, *nomad.Evaluation) error  { return nil }
func (p *dryPlanner) ReblockEval(context.Context, *nomad.Evaluation) error { return nil }
