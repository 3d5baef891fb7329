package plan_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/plan"
)

// mounts registers a job that asks for a volume in an access mode.
func (w *world) mounts(mode nomad.VolumeAccessMode, readOnly bool) *nomad.Job {
	return w.Job(w.t, nomad.JobTypeBatch, 1, func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data", AccessMode: mode,
			ReadOnly: readOnly}}
	})
}

// withData gives a node the static volume "data".
func withData(n *nomad.Node) {
	n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{"data": {Name: "data"}}
}

// Two schedulers placed writers of a volume with a single writer: the second plan is rejected on that node.
func TestVolume_SingleWriter(t *testing.T) {
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
		node := w.Node(t, withData)
		first, second := w.mounts(c.first, false), w.mounts(c.second, c.readOnly)
		a, b := w.plan(first), w.plan(second)
		reserved := testlog.NewAlloc(first, node)
		place(a, reserved)
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
			next.NodeUpdate[node.ID] = []*nomad.Allocation{{ID: reserved.ID, NodeID: node.ID, JobID: first.ID, Namespace: first.Namespace,
				DesiredStatus: nomad.AllocDesiredStatusStop}}
			if r := w.submit(next); len(r.RejectedNodes) != 0 {
				t.Errorf("%+v: the replacement was rejected", c)
			}
		}
	}
	// Both writers in one plan.
	w := start(t)
	node, j := w.Node(t, withData), w.mounts("single-node-single-writer", false)
	p := w.plan(j)
	place(p, testlog.NewAlloc(j, node), testlog.NewAlloc(j, node))
	if r := w.submit(p); len(r.RejectedNodes) != 1 {
		t.Errorf("two writers in one plan: %+v", r)
	}
}

// The plan of a writer is being committed when another writer is checked.
func TestVolume_WriterInFlight(t *testing.T) {
	for _, form := range []string{"of this build", "of Nomad 2.0"} {
		w := start(t)
		node := w.Node(t, withData)
		first := w.mounts("single-node-single-writer", false)
		second := w.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) { // its group g mounts nothing
			h := *j.TaskGroups[0]
			h.Name, h.Volumes = "h", first.TaskGroups[0].Volumes
			j.TaskGroups = append(j.TaskGroups, &h)
		})
		a := place(w.plan(first), testlog.NewAlloc(first, node))
		b := place(w.plan(second), testlog.NewAlloc(second, node, func(a *nomad.Allocation) { a.TaskGroup = "h" }),
			testlog.NewAlloc(second, w.Node(t)))
		if form == "of Nomad 2.0" {
			a, b = named(a, first.Namespace, first.ID), named(b, second.Namespace, second.ID)
		}
		w.minter.signed = make(chan int, 10)
		g := w.gate()
		one := w.submitLater(a)
		<-g.arrived
		<-w.minter.signed
		two := w.submitLater(b)
		<-w.minter.signed // its check is complete while the first is held
		g.open <- nil
		g.open <- nil
		if r := <-one; r.err != nil || len(r.r.RejectedNodes) != 0 {
			t.Fatalf("first plan %s: %+v", form, r)
		}
		if r := <-two; r.err != nil || len(r.r.RejectedNodes) != 1 {
			t.Errorf("second plan %s: %+v, want the node rejected", form, r)
		}
	}
}

// A writer that an earlier plan stopped writes until its client ends it. Only its successor, which starts after its end, is
// placed before.
func TestVolume_StoppingWriter(t *testing.T) {
	w := start(t)
	node := w.Node(t, withData)
	job, other := w.mounts("single-node-single-writer", false), w.mounts("single-node-single-writer", false)
	old := testlog.NewAlloc(job, node)
	w.submit(place(w.plan(job), old))
	stop := w.plan(job)
	stop.NodeUpdate[node.ID] = []*nomad.Allocation{{ID: old.ID, NodeID: node.ID, JobID: job.ID, Namespace: job.Namespace,
		DesiredStatus: nomad.AllocDesiredStatusStop}}
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

// A node takes no allocation for a volume that it lacks, that was deleted, or that is withheld.
func TestVolumeOfNode(t *testing.T) {
	for name, c := range map[string]struct {
		have             *nomad.ClientHostVolumeConfig
		stored, withheld bool
		rejected         int
	}{
		"static":        {&nomad.ClientHostVolumeConfig{Name: "data"}, false, false, 0},
		"missing":       {nil, false, false, 1},
		"dynamic":       {&nomad.ClientHostVolumeConfig{Name: "data", ID: "v1"}, true, false, 0},
		"deleted":       {&nomad.ClientHostVolumeConfig{Name: "data", ID: "v1"}, false, false, 1},
		"being deleted": {&nomad.ClientHostVolumeConfig{Name: "data", ID: "v1"}, true, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWith(t, plan.Rejections{Enabled: true, Threshold: 1, Window: time.Hour})
			node := w.Node(t, func(n *nomad.Node) {
				if c.have != nil {
					n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{"data": c.have}
				}
			})
			if c.stored {
				w.volume(node)
			}
			job := w.mounts("", false)
			for _, form := range []string{"of this build", "of Nomad 2.0"} {
				a := testlog.NewAlloc(job, node)
				p := place(w.plan(job), a)
				if form == "of Nomad 2.0" {
					p = named(p, job.Namespace, job.ID)
				}
				release := func() {}
				if c.withheld {
					release = w.applier.Withhold("v1")
				}
				if r := w.submit(p); len(r.RejectedNodes) != c.rejected {
					t.Errorf("plan %s: %+v, want %d nodes rejected", form, r, c.rejected)
				}
				if c.withheld && !w.Snapshot().Node(nil, node.ID).Ready() {
					t.Error("the node became ineligible for a withheld volume")
				}
				release()
				if c.withheld {
					if r := w.submit(place(w.plan(job), testlog.NewAlloc(job, node))); len(r.RejectedNodes) != 0 {
						t.Errorf("after the release: %+v", r)
					}
				}
			}
		})
	}
}

// volume stores the volume "data" of a node, with the ID v1.
func (w *world) volume(node *nomad.Node) {
	w.t.Helper()
	w.Must(w.t, message.HostVolumeRegisterRequestType,
		&message.HostVolumeRegisterRequest{Volume: &hostvolume.Volume{ID: "v1", Name: "data", Namespace: "default", NodeID: node.ID}})
}

// A plan that is being committed when its volume is withheld is committed first: the state after it shows the user.
func TestWithhold_PlanInFlight(t *testing.T) {
	for range 20 {
		w := start(t)
		node := w.Node(t, func(n *nomad.Node) {
			n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{"data": {Name: "data", ID: "v1"}}
		})
		w.volume(node)
		job := w.mounts("", false)
		v := w.Snapshot().HostVolume(nil, "default", "v1")
		p1, p2 := place(w.plan(job), testlog.NewAlloc(job, node)), place(w.plan(job), testlog.NewAlloc(job, node))
		g := w.gate()
		first := w.submitLater(p1)
		<-g.arrived
		users := make(chan int)
		go func() {
			defer w.applier.Withhold("v1")()
			users <- len(w.Snapshot().HostVolumeUsers(v))
			<-users
		}()
		g.open <- nil
		if got := <-users; got != 1 {
			t.Fatalf("%d users of a withheld volume, want the one of the earlier plan", got)
		}
		<-first
		if r := w.submit(p2); len(r.NodeAllocation) != 0 {
			t.Fatalf("the plan after it placed %v", r.NodeAllocation)
		}
		users <- 0
		w.stop()
	}
}
