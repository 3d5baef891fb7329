package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

func byNode(allocs []*nomad.Allocation) map[string]int {
	out := map[string]int{}
	for _, a := range allocs {
		out[a.NodeID]++
	}
	return out
}

func TestSystem_AllNodes(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.addNode("n2")
	w.addNode("mac", func(n *nomad.Node) { n.Attributes["kernel.name"] = "darwin" })
	w.register(job(nomad.JobTypeSystem, 1, func(j *nomad.Job) {
		j.Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "linux"}}
	}))
	e := w.process()
	if got := byNode(w.live()); got["n1"] != 1 || got["n2"] != 1 || got["mac"] != 0 {
		t.Fatalf("by node = %v", got)
	}
	if len(e.FailedTGAllocs) != 0 || len(w.created) != 0 || e.QueuedAllocations["g"] != 0 {
		t.Errorf("an infeasible node counts as a failure: %+v", e)
	}
	wantNames(t, w.live(), "j.g[0]", "j.g[0]")

	w.addNode("n3")
	w.process()
	if got := byNode(w.live()); got["n3"] != 1 || len(w.live()) != 3 {
		t.Errorf("by node = %v, want the new node too", got)
	}
	w.addNode("n3", func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible })
	w.addNode("n2", func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
	w.process()
	if got := byNode(w.live()); got["n1"] != 1 || got["n2"] != 0 || got["n3"] != 1 {
		t.Errorf("by node = %v, want n2 lost and n3 kept", got)
	}
	w.change(func(j *nomad.Job) { j.Datacenters = []string{"elsewhere"} })
	w.process()
	if got := byNode(w.live()); got["n1"] != 0 {
		t.Errorf("by node = %v, want only n1", got)
	}
}

func TestSystem_Reasons(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.addNode("n2")
	w.register(job(nomad.JobTypeSystem, 1, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Driver = "x" }))
	m := w.process().FailedTGAllocs["g"]
	if m == nil || m.ConstraintFiltered["missing drivers"] != 2 || m.NodesEvaluated != 2 {
		t.Errorf("metric = %+v", m)
	}
}

func TestSystemExhausted(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.addNode("n2", func(n *nomad.Node) { n.NodeResources.Memory.MemoryMB = 10 })
	w.register(job(nomad.JobTypeSystem, 1))
	e := w.process()
	if m := e.FailedTGAllocs["g"]; m == nil || m.DimensionExhausted["memory"] != 1 || e.QueuedAllocations["g"] != 1 || len(w.created) != 1 {
		t.Errorf("evaluation = %+v, created %d", e, len(w.created))
	}
}

func TestSystem_Stagger(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		w.addNode(id)
	}
	w.register(job(nomad.JobTypeSystem, 1, func(j *nomad.Job) {
		j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 2, Stagger: 30 * time.Second}
	}))
	w.process()
	w.change(newCommand)
	e := w.process()
	if got := versions(w.live()); got[0] != 1 || got[1] != 2 {
		t.Fatalf("live by version = %v, want 2 new", got)
	}
	if len(w.created) != 1 || e.NextEval != w.created[0].ID || w.created[0].Wait != 30*time.Second ||
		w.created[0].TriggeredBy != nomad.EvalTriggerRollingUpdate {
		t.Fatalf("next = %+v", w.created)
	}
	w.process()
	if got := versions(w.live()); got[1] != 3 || len(w.created) != 1 {
		t.Errorf("live by version = %v", got)
	}
}

// The update block has no effect on sysbatch jobs: all allocations are replaced at once.
func TestSysBatch_NoStagger(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		w.addNode(id)
	}
	w.register(job(nomad.JobTypeSysBatch, 1, func(j *nomad.Job) {
		j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 2, Stagger: 30 * time.Second}
	}))
	w.process()
	w.change(newCommand)
	w.process()
	if got := versions(w.live()); got[1] != 3 || len(w.created) != 0 {
		t.Errorf("live by version = %v with %d more evaluations, want 3 new", got, len(w.created))
	}
}

func TestSysBatch_Once(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.addNode("n2")
	w.register(job(nomad.JobTypeSysBatch, 1))
	w.process()
	live := w.live()
	w.report(nomad.AllocClientStatusComplete, nil, live[0])
	w.report(nomad.AllocClientStatusFailed, nil, live[1])
	w.process()
	if len(w.live()) != 0 || len(w.plans) != 1 {
		t.Errorf("%d live after %d plans, want completed allocations not to run again", len(w.live()), len(w.plans))
	}
	w.change(newCommand)
	w.process()
	if len(w.live()) != 2 {
		t.Errorf("%d live, want the new version on both nodes", len(w.live()))
	}
}

func TestSystem_Terminal(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeSystem, 1))
	w.process()
	w.report(nomad.AllocClientStatusFailed, nil, w.live()[0])
	w.process()
	if len(w.live()) != 1 {
		t.Errorf("%d live, want a new one", len(w.live()))
	}
	w.change(func(j *nomad.Job) { j.Stop = true })
	w.process()
	if len(w.live()) != 0 {
		t.Errorf("%d live after stop", len(w.live()))
	}
}
