package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestMoveToTarget moves an allocation to a requested node. Without room there, another node is used, but not the
// one that the allocation leaves.
func TestMoveToTarget(t *testing.T) {
	small := func(n *nomad.Node) { n.NodeResources.Memory.MemoryMB = 300 }
	for name, c := range map[string]struct {
		target func(*nomad.Node)
		want   string
	}{
		"room":       {func(*nomad.Node) {}, "target"},
		"no room":    {func(n *nomad.Node) { n.NodeResources.Memory.MemoryMB = 50 }, "other"},
		"ineligible": {func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible }, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("from", small) // the best score: it is the smallest
			w.register(job(nomad.JobTypeService, 1))
			w.process()
			wantNodes(t, w, "from")
			w.addNode("other")
			w.addNode("target", c.target)
			a := *w.live()[0]
			a.DesiredTransition = nomad.DesiredTransition{Migrate: &yes, TargetNode: "target"}
			w.set(&a)
			w.process()
			wantNodes(t, w, c.want)
			if next := w.live()[0]; next.PreviousAllocation != a.ID || next.DesiredTransition.TargetNode != "" {
				t.Errorf("the replacement follows %q and has the target %q", next.PreviousAllocation, next.DesiredTransition.TargetNode)
			}
		})
	}
}

func wantNodes(t *testing.T, w *world, want string) {
	t.Helper()
	live := w.live()
	if len(live) != 1 || live[0].NodeID != want {
		t.Fatalf("%d live allocations, the first on %s, want one on %s", len(live), live[0].NodeID, want)
	}
}
