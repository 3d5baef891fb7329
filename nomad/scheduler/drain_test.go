package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// drained marks an allocation as the drainer does at the deadline.
func drained(w *world, a *nomad.Allocation) {
	yes := true
	out := *w.allocs[a.ID]
	out.DesiredTransition = nomad.DesiredTransition{Migrate: &yes, MigrateDisablePlacement: &yes}
	w.set(&out)
}

// A batch allocation that a drain stops is not replaced. It keeps its place in the count until the job changes.
func TestDrain_BatchNotReplaced(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeBatch, 2))
	w.process()
	old := w.live()
	if len(old) != 2 {
		t.Fatalf("%d live, want 2", len(old))
	}
	w.addNode("n1", func(n *nomad.Node) { n.DrainStrategy = &nomad.DrainStrategy{} })
	w.addNode("n2")
	drained(w, old[0])
	w.process()
	if got := w.allocs[old[0].ID]; got.DesiredStatus != nomad.AllocDesiredStatusStop {
		t.Fatalf("the drained allocation is %s", got.DesiredStatus)
	}
	wantNames(t, w.live(), old[1].Name)
	plans := len(w.plans)
	w.process()
	for _, p := range w.plans[plans:] {
		if len(p.NodeUpdate)+len(p.NodeAllocation) != 0 {
			t.Errorf("a second evaluation changes something: %+v", p)
		}
	}
	w.report(nomad.AllocClientStatusComplete, nil, w.allocs[old[0].ID])
	w.process()
	wantNames(t, w.live(), old[1].Name)

	// A smaller count stops nothing twice.
	w.change(func(j *nomad.Job) { j.Priority = 60; j.TaskGroups[0].Count = 2 })
	w.process()
	if got := w.live(); len(got) != 2 {
		t.Errorf("%d live after a new version, want 2", len(got))
	}
}
