package plan_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
)

// mounts registers a job that asks for a volume in an access mode.
func (w *world) mounts(mode nomad.VolumeAccessMode, readOnly bool) *nomad.Job {
	return w.Job(w.t, nomad.JobTypeBatch, 1, func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data", AccessMode: mode, ReadOnly: readOnly}}
	})
}

// Two schedulers placed writers of a volume with a single writer: the second plan is rejected on that node.
func TestVolumeWithSingleWriter(t *testing.T) {
	for _, c := range []struct {
		first, second nomad.VolumeAccessMode
		readOnly      bool
		rejected      int
	}{
		{"single-node-single-writer", "single-node-single-writer", false, 1},
		{"single-node-multi-writer", "single-node-single-writer", false, 1},
		{"", "single-node-single-writer", false, 1},
		{"", "single-node-multi-writer", false, 0},
		{"single-node-single-writer", "single-node-single-writer", true, 0},
		{"single-node-reader-only", "single-node-single-writer", false, 0},
	} {
		w := start(t)
		node := w.Node(t)
		first, second := w.mounts(c.first, false), w.mounts(c.second, c.readOnly)
		a, b := w.plan(first), w.plan(second)
		held := testlog.NewAlloc(first, node)
		place(a, held)
		place(b, testlog.NewAlloc(second, node))
		if r := w.submit(a); len(r.RejectedNodes) != 0 {
			t.Fatalf("first plan: %+v", r)
		}
		if r := w.submit(b); len(r.RejectedNodes) != c.rejected {
			t.Errorf("%+v: %d nodes were rejected", c, len(r.RejectedNodes))
		}
		// A plan that stops the writer replaces it.
		if c.rejected > 0 {
			next := w.plan(second)
			place(next, testlog.NewAlloc(second, node))
			next.NodeUpdate[node.ID] = []*nomad.Allocation{{ID: held.ID, NodeID: node.ID, JobID: first.ID, Namespace: first.Namespace, DesiredStatus: nomad.AllocDesiredStatusStop}}
			if r := w.submit(next); len(r.RejectedNodes) != 0 {
				t.Errorf("%+v: the replacement was rejected", c)
			}
		}
	}
	// Both writers in one plan.
	w := start(t)
	node, j := w.Node(t), w.mounts("single-node-single-writer", false)
	p := w.plan(j)
	place(p, testlog.NewAlloc(j, node), testlog.NewAlloc(j, node))
	if r := w.submit(p); len(r.RejectedNodes) != 1 {
		t.Errorf("two writers in one plan: %+v", r)
	}
}

// A writer that an earlier plan stopped writes until its client ends it. Only its successor, which starts after its end, is
// placed before.
func TestVolumeOfAStoppingWriter(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job, other := w.mounts("single-node-single-writer", false), w.mounts("single-node-single-writer", false)
	old := testlog.NewAlloc(job, node)
	w.submit(place(w.plan(job), old))
	stop := w.plan(job)
	stop.NodeUpdate[node.ID] = []*nomad.Allocation{{ID: old.ID, NodeID: node.ID, JobID: job.ID, Namespace: job.Namespace, DesiredStatus: nomad.AllocDesiredStatusStop}}
	w.submit(stop)
	if r := w.submit(place(w.plan(other), testlog.NewAlloc(other, node))); len(r.RejectedNodes) != 1 {
		t.Errorf("a writer beside one that stops: %+v, want the node rejected", r)
	}
	next := testlog.NewAlloc(job, node)
	next.PreviousAllocation = old.ID
	if r := w.submit(place(w.plan(job), next)); len(r.RejectedNodes) != 0 {
		t.Errorf("the successor of a writer that stops: %+v", r)
	}
}
