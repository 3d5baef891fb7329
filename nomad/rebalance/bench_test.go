package rebalance_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rebalance"
)

// BenchmarkPlan plans 100 moves for 2000 nodes, half of them empty, and 5000 allocations of 50 jobs.
func BenchmarkPlan(b *testing.B) {
	l := testlog.New(nil)
	var nodes []*nomad.Node
	for range 2000 {
		nodes = append(nodes, l.Node(b))
	}
	yes := true
	for i := range 50 {
		j := l.Job(b, nomad.JobTypeService, 100, func(j *nomad.Job) {
			j.ID = fmt.Sprint("job", i)
			j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 200 + 10*i, MemoryMB: 100}
		})
		req := &message.ApplyPlanResultsRequest{Job: j, UpdatedAt: 1}
		for n := range 100 {
			req.AllocsUpdated = append(req.AllocsUpdated, testlog.NewAlloc(j, nodes[(i*37+n*7)%1000], func(a *nomad.Allocation) {
				a.Name, a.ClientStatus, a.Job = nomad.AllocName(j.ID, "g", uint(n)), nomad.AllocClientStatusRunning, nil
				a.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &yes}
			}))
		}
		l.Must(b, message.ApplyPlanResultsRequestType, req)
	}
	snap := l.Snapshot()
	for b.Loop() {
		r, err := rebalance.Plan(context.Background(), snap, rebalance.Options{MaxMoves: 100})
		if err != nil || len(r.Moves) != 100 {
			b.Fatalf("%d moves, %v, skipped %v", len(r.Moves), err, r.Skipped)
		}
	}
}
