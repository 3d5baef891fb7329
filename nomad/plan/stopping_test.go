package plan_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// An allocation that is to stop uses its resources until its client reports the end. Only the plan
// that stops it may place its replacement in that room.
func TestApplier_StoppingAllocation(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	web, other := w.Job(t, nomad.JobTypeService, 1), w.Job(t, nomad.JobTypeBatch, 1)
	old := w.Alloc(t, web, node, cpu(4000))
	fresh := testlog.NewAlloc(web, node, cpu(3000))
	p := place(w.plan(web), fresh)
	p.NodeUpdate[node.ID] = []*nomad.Allocation{old}
	if r := w.submit(p); len(r.RejectedNodes) != 0 {
		t.Fatalf("replacement in the same plan: %+v", r)
	}
	if r := w.submit(place(w.plan(other), testlog.NewAlloc(other, node, cpu(1000)))); len(r.RejectedNodes) != 1 {
		t.Errorf("placement before the end of the old one: %+v, want the node rejected", r)
	}
	updated := *w.Snapshot().Alloc(nil, fresh.ID)
	if r := w.submit(place(w.plan(web), &updated)); len(r.RejectedNodes) != 0 {
		t.Errorf("update in place on the full node: %+v", r)
	}
	ended := *w.Snapshot().Alloc(nil, old.ID)
	ended.ClientStatus = nomad.AllocClientStatusComplete
	w.Must(t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{&ended}})
	if r := w.submit(place(w.plan(other), testlog.NewAlloc(other, node, cpu(1000)))); len(r.RejectedNodes) != 0 {
		t.Errorf("placement after the end of the old one: %+v", r)
	}
}
