package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// A node has no room for a new allocation until its client has ended the old one. The update of a job
// replaces its allocations in their room.
func TestStopping_UsesNode(t *testing.T) {
	w := newWorld(t)
	w.slow = true
	w.addNode("n1", func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 200 })
	w.register(job(nomad.JobTypeService, 2))
	w.process()
	before := w.live()
	w.change(newCommand)
	w.process()
	if got := versions(w.live()); got[1] != 2 {
		t.Fatalf("live by version = %v, want the old ones replaced", got)
	}
	w.report(nomad.AllocClientStatusComplete, nil, before...)
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 1 })
	w.process()
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 2 })
	if e := w.process(); len(w.live()) != 1 || e.FailedTGAllocs["g"] == nil {
		t.Errorf("%d run, want 1 while the client stops the other", len(w.live()))
	}
	for _, a := range w.allocs {
		if a.ServerTerminalStatus() && !a.ClientTerminalStatus() {
			w.report(nomad.AllocClientStatusComplete, nil, a)
		}
	}
	w.process()
	if len(w.live()) != 2 {
		t.Errorf("%d run after the end of the old one, want 2", len(w.live()))
	}
}
