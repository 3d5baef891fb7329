package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// A sysbatch job runs count allocations on each node. One that has completed is not run again in the same version.
func TestSysBatchCount(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.addNode("n2")
	w.register(job(nomad.JobTypeSysBatch, 2))
	placed := func() []string {
		w.process()
		var out []string
		for _, a := range w.live() {
			out = append(out, fmt.Sprintf("%s on %s", a.Name, a.NodeID))
		}
		slices.Sort(out)
		return out
	}
	all := []string{"j.g[0] on n1", "j.g[0] on n2", "j.g[1] on n1", "j.g[1] on n2"}
	if got := placed(); !slices.Equal(got, all) {
		t.Fatalf("placed %q, want %q", got, all)
	}
	first := w.live()[0]
	w.report(nomad.AllocClientStatusComplete, nil, first)
	if got := placed(); len(got) != 3 {
		t.Errorf("after the end of %s on %s: %q", first.Name, first.NodeID, got)
	}
	w.addNode("n3")
	if got := placed(); len(got) != 5 || got[2] != "j.g[0] on n3" && got[1] != "j.g[0] on n3" {
		t.Errorf("on a third node: %q", got)
	}
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 1 })
	for _, a := range w.live() {
		w.report(nomad.AllocClientStatusRunning, nil, a)
	}
	if got := placed(); len(got) != 3 {
		t.Errorf("with count 1: %q", got)
	}
}
