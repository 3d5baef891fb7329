package csi_test

import (
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestLost suspends the agent of a node whose job writes to a volume, until the node is down. The job continues on the other
// node when the claim of the lost one is free. Back again, the first node stops its task and unmounts the volume.
func TestLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{nodes: []string{"a", "b"}})
	r.create(volume("data"))
	u := user{id: "writer", source: "data", kind: "service", script: writes,
		group: "affinity {\n attribute = \"$${node.unique.name}\"\n value = \"a\"\n weight = 100\n}\n"}
	first := r.runs(u)[0]
	if first.NodeName != "a" {
		t.Fatalf("it runs on %s", first.NodeName)
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(r.nodes["a"].Pid(), s); err != nil {
			t.Error(err)
		}
	}
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	id := harness.NodeID(t, r.nodes["b"])
	lost := first.NodeID
	harness.WaitNodeStatus(t, r.Server, lost, "down")
	next := r.elsewhere("writer", first)
	if next.NodeID != id {
		t.Errorf("it continues on node %s", next.NodeName)
	}
	if v := r.info("data"); len(v.WriteAllocs) != 1 || v.Schedulable != true {
		t.Errorf("claims %v, schedulable %t", v.WriteAllocs, v.Schedulable)
	}
	signal(syscall.SIGCONT)
	harness.WaitNodeStatus(t, r.Server, lost, "ready")
	r.noMounts("a")
	r.healthy(2)
	if al := harness.Await(t, r.Server, "writer", "running", 1)[0]; al.ID != next.ID {
		t.Errorf("allocation %s runs, want %s", al.ID, next.ID)
	}
	harness.Stop(t, r.Server, "writer")
	r.free("data")
}

// elsewhere waits until a job runs with another allocation, and returns it.
func (r *rig) elsewhere(job string, than *api.AllocationListStub) *api.AllocationListStub {
	r.t.Helper()
	var next *api.AllocationListStub
	harness.Within(r.t, 2*harness.Patience, job+" runs with another allocation", func() bool {
		for _, al := range harness.Allocs(r.t, r.Server, job, "running") {
			if al.ID != than.ID && al.DesiredStatus == "run" {
				next = al
			}
		}
		return next != nil
	})
	return next
}
