package plan_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
)

func gpu(id string) func(*nomad.Allocation) {
	return func(a *nomad.Allocation) {
		a.AllocatedResources.Tasks["t"].Devices = []*nomad.AllocatedDeviceResource{{Vendor: "nvidia", Type: "gpu", Name: "t4",
			DeviceIDs: []string{id}}}
	}
}

// Two schedulers gave the same device to different allocations: the second plan is rejected on that node.
func TestApplier_Device(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	first, second := w.Job(t, nomad.JobTypeBatch, 1), w.Job(t, nomad.JobTypeBatch, 1)
	a, b := w.plan(first), w.plan(second)
	reserved := testlog.NewAlloc(first, node, gpu("a"))
	place(a, reserved)
	place(b, testlog.NewAlloc(second, node, gpu("a")))
	if r := w.submit(a); len(r.RejectedNodes) != 0 || len(r.NodeAllocation[node.ID]) != 1 {
		t.Fatalf("first plan: %+v", r)
	}
	if r := w.submit(b); len(r.RejectedNodes) != 1 || len(r.NodeAllocation[node.ID]) != 0 {
		t.Errorf("second plan: %+v, want it rejected", r)
	}
	// Another instance is free, and so is the first one once its allocation is preempted.
	other := w.plan(second)
	place(other, testlog.NewAlloc(second, node, gpu("b")))
	if r := w.submit(other); len(r.RejectedNodes) != 0 {
		t.Errorf("plan for another instance: %+v", r)
	}
	instead, by := w.plan(second), testlog.NewAlloc(second, node, gpu("a"))
	place(instead, by)
	gone := *reserved
	gone.PreemptedByAllocation = by.ID
	instead.NodePreemptions[node.ID] = []*nomad.Allocation{&gone}
	if r := w.submit(instead); len(r.RejectedNodes) != 0 || len(r.NodePreemptions[node.ID]) != 1 {
		t.Errorf("plan with a preemption: %+v", r)
	}
}
