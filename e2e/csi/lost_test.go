package csi_test

import (
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// suspend suspends the agent of a node until resume is called or the test ends. The tasks of the node go on.
func (r *rig) suspend(node string) (resume func()) {
	r.t.Helper()
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(r.nodes[node].Pid(), s); err != nil {
			r.t.Error(err)
		}
	}
	signal(syscall.SIGSTOP)
	resume = func() { signal(syscall.SIGCONT) }
	r.t.Cleanup(resume)
	return resume
}

// onA is a service that prefers node a and writes to the volume "data".
func onA(group string) user {
	return user{id: "writer", source: "data", kind: "service", script: writes, group: group +
		"affinity {\n attribute = \"$${node.unique.name}\"\n value = \"a\"\n weight = 100\n}\n"}
}

// TestLost suspends the agent of a node whose job writes to a volume, until the node is down. The job continues on the other
// node when the claim of the lost one is free. Back again, the first node stops its task and unmounts the volume.
func TestLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{nodes: []string{"a", "b"}})
	r.create(volume("data"))
	first := r.runs(onA(""))[0]
	resume := r.suspend("a")
	harness.WaitNodeStatus(t, r.Server, first.NodeID, "down")
	next := r.elsewhere("writer", first)
	if next.NodeName != "b" {
		t.Errorf("it continues on node %s", next.NodeName)
	}
	if v := r.info("data"); len(v.WriteAllocs) != 1 || !v.Schedulable {
		t.Errorf("claims %v, schedulable %t", v.WriteAllocs, v.Schedulable)
	}
	resume()
	harness.WaitNodeStatus(t, r.Server, first.NodeID, "ready")
	r.noMounts("a")
	r.healthy(2)
	if al := harness.Await(t, r.Server, "writer", "running", 1)[0]; al.ID != next.ID {
		t.Errorf("allocation %s runs, want %s", al.ID, next.ID)
	}
	harness.Stop(t, r.Server, "writer")
	r.free("data")
}

// TestDisconnected is TestLost for a job that keeps its allocation on a node that comes back. That allocation goes on writing, so
// the replacement waits for the claim and never starts.
func TestDisconnected(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{nodes: []string{"a", "b"}})
	r.create(volume("data"))
	first := r.runs(onA("disconnect {\n lost_after = \"1h\"\n reconcile = \"keep_original\"\n}\n"))[0]
	resume := r.suspend("a")
	harness.WaitNodeStatus(t, r.Server, first.NodeID, "disconnected")
	var second *api.AllocationListStub
	harness.Within(t, harness.Patience, "the replacement is placed", func() bool {
		for _, al := range harness.AllAllocs(t, r.Server, "writer") {
			if al.ID != first.ID {
				second = al
			}
		}
		return second != nil
	})
	if v := r.info("data"); len(v.WriteAllocs) != 1 || !slices.Contains(slices.Collect(maps.Keys(v.WriteAllocs)), first.ID) {
		t.Errorf("claims %v, want the one of %s", v.WriteAllocs, first.ID)
	}
	resume()
	harness.WaitNodeStatus(t, r.Server, first.NodeID, "ready")
	harness.Within(t, 2*harness.Patience, "the replacement stops", func() bool {
		all := harness.AllAllocs(t, r.Server, "writer")
		return len(all) == 2 && !slices.ContainsFunc(all, func(al *api.AllocationListStub) bool {
			return al.ID == second.ID && al.ClientStatus != "complete" && al.ClientStatus != "failed" || al.ID == first.ID && al.ClientStatus != "running"
		})
	})
	harness.Stop(t, r.Server, "writer")
	r.content("data", "begin\nend\n")
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
