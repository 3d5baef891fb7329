package plan_test

import (
	"maps"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
)

// TestIsolationOfAllocations checks that the applier writes the levels of new allocations, whatever the
// plan has, and that an update keeps them: the tokens claim them.
func TestIsolationOfAllocations(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Isolation = "host" })
	a := testlog.NewAlloc(job, node)
	a.Isolation = map[string]string{"t": "strict"}
	w.submit(place(w.plan(job), a))
	stored := w.Snapshot().Alloc(nil, a.ID)
	if want := map[string]string{"t": "host"}; stored == nil || !maps.Equal(stored.Isolation, want) {
		t.Fatalf("stored allocation has the levels %v, want %v", stored.Isolation, want)
	}
	update := codec.Copy(stored)
	update.Isolation, update.DesiredDescription = nil, "updated"
	w.submit(place(w.plan(job), update))
	if got := w.Snapshot().Alloc(nil, a.ID); got.DesiredDescription != "updated" || got.Isolation["t"] != "host" {
		t.Errorf("updated allocation has the levels %v and is %q, want those it had", got.Isolation, got.DesiredDescription)
	}
}
