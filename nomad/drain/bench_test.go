package drain

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// BenchmarkPlan plans one step for 100 draining nodes of 5,000, with 5,000 allocations of 500 jobs.
func BenchmarkPlan(b *testing.B) {
	const nodes, draining, jobs, count = 5000, 100, 500, 10
	l := testlog.New(nil)
	all := make([]*nomad.Node, nodes)
	for i := range all {
		all[i] = l.Node(b)
		if i < draining {
			l.Must(b, message.NodeUpdateDrainRequestType, &message.NodeUpdateDrainRequest{NodeID: all[i].ID,
				DrainStrategy: &nomad.DrainStrategy{}, UpdatedAt: 1})
		}
	}
	healthy := true
	for i := range jobs {
		job := l.Job(b, nomad.JobTypeService, count, func(j *nomad.Job) { j.ID = fmt.Sprintf("job-%03d", i) })
		var allocs []*nomad.Allocation
		for k := range count {
			a := testlog.NewAlloc(job, all[(i*count+k)%nodes])
			a.Name = nomad.AllocName(job.ID, "g", uint(k))
			a.ClientStatus, a.DeploymentStatus = nomad.AllocClientStatusRunning, &nomad.AllocDeploymentStatus{Healthy: &healthy}
			allocs = append(allocs, a)
		}
		l.Must(b, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{AllocsUpdated: allocs})
	}
	snap := l.Snapshot()
	if s := plan(snap, memdb.NewWatchSet(), time.Now()); len(s.mark) == 0 {
		b.Fatal("nothing to do")
	}
	for b.Loop() {
		plan(snap, memdb.NewWatchSet(), time.Now())
	}
}
