package plan_test

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

// csiNode writes a node that runs the plugin "p" and attaches at most limit volumes.
func (w *world) csiNode(limit int64) *nomad.Node {
	n := *w.Node(w.t)
	entries := csitest.Place(&n, "p", csi.PluginNode)
	n.CSINodePlugins["p"].NodeInfo.MaxVolumes = limit
	for _, e := range append(entries, csitest.Entry{Type: message.NodeRegisterRequestType, Body: &message.NodeRegisterRequest{Node: &n}}) {
		w.Must(w.t, e.Type, e.Body)
	}
	return w.Snapshot().Node(nil, n.ID)
}

// csiVolume registers a volume of the plugin "p", which allows every use.
func (w *world) csiVolume(id string) {
	w.Must(w.t, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: id, Name: id,
		Namespace: "default", PluginID: "p", RequestedCapabilities: []*csi.Capability{{AccessMode: nomad.VolumeMultiNodeMultiWriter}}}}})
}

// csiClaim claims a volume for a stored allocation.
func (w *world) csiClaim(id string, a *nomad.Allocation, mode nomad.VolumeAccessMode, claim csi.ClaimMode) {
	w.Must(w.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: id, AllocationID: a.ID, NodeID: a.NodeID,
		Claim: claim, AccessMode: mode, State: csi.ClaimTaken, WriteRequest: message.WriteRequest{Namespace: "default"}})
}

// claims registers a job whose allocations request a volume.
func (w *world) claims(source string, mode nomad.VolumeAccessMode, edit ...func(*nomad.VolumeRequest)) *nomad.Job {
	return w.Job(w.t, nomad.JobTypeService, 1, func(j *nomad.Job) {
		r := &nomad.VolumeRequest{Name: "v", Type: "csi", Source: source, AccessMode: mode, AttachmentMode: nomad.VolumeAttachFilesystem}
		r.ReadOnly = mode == nomad.VolumeMultiNodeReader || mode == nomad.VolumeSingleNodeReader
		for _, f := range edit {
			f(r)
		}
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": r}
	})
}

// Two schedulers placed allocations that exclude each other, of the same volume on any node: the second plan is rejected, before
// the first allocation has claimed the volume and after it has.
func TestCSI_Claims(t *testing.T) {
	for _, c := range []struct {
		first, second nomad.VolumeAccessMode
		rejected      int
	}{
		{nomad.VolumeSingleNodeWriter, nomad.VolumeSingleNodeWriter, 1},
		{nomad.VolumeSingleNodeWriter, nomad.VolumeMultiNodeReader, 1},
		{nomad.VolumeMultiNodeSingleWriter, nomad.VolumeMultiNodeSingleWriter, 1},
		{nomad.VolumeMultiNodeSingleWriter, nomad.VolumeMultiNodeReader, 0},
		{nomad.VolumeSingleNodeReader, nomad.VolumeSingleNodeReader, 1},
		{nomad.VolumeMultiNodeReader, nomad.VolumeMultiNodeReader, 0},
		{nomad.VolumeMultiNodeMultiWriter, nomad.VolumeMultiNodeMultiWriter, 0},
	} {
		for _, claimed := range []bool{false, true} {
			for _, sameNode := range []bool{false, true} {
				w := start(t)
				w.csiVolume("data")
				n1, n2 := w.csiNode(9), w.csiNode(9)
				if sameNode {
					n2 = n1
				}
				first, second := w.claims("data", c.first), w.claims("data", c.second)
				a, b := testlog.NewAlloc(first, n1), testlog.NewAlloc(second, n2)
				p := place(w.plan(second), b) // of a state before the first plan
				if r := w.submit(place(w.plan(first), a)); len(r.RejectedNodes) != 0 {
					t.Fatalf("first plan: %+v", r)
				}
				if claimed {
					mode := csi.ClaimWrite
					if first.TaskGroups[0].Volumes["v"].ReadOnly {
						mode = csi.ClaimRead
					}
					w.csiClaim("data", a, c.first, mode)
				}
				if r := w.submit(p); len(r.RejectedNodes) != c.rejected {
					t.Errorf("%s beside %s (claimed %t, same node %t): %d nodes were rejected, want %d", c.second, c.first, claimed, sameNode,
						len(r.RejectedNodes), c.rejected)
				}
			}
		}
	}
}

// A plan may place one of several writers of a job, and the successor of a writer that it stops.
func TestCSI_OwnWriters(t *testing.T) {
	w := start(t)
	w.csiVolume("data")
	n1, n2 := w.csiNode(9), w.csiNode(9)
	job := w.claims("data", nomad.VolumeSingleNodeWriter)
	a, b := testlog.NewAlloc(job, n1), testlog.NewAlloc(job, n2)
	r := w.submit(place(w.plan(job), a, b))
	if len(r.RejectedNodes) != 1 || len(r.NodeAllocation) != 1 {
		t.Fatalf("two writers in one plan: %+v", r)
	}
	if r.NodeAllocation[n2.ID] != nil {
		a, n1, n2 = b, n2, n1
	}
	w.csiClaim("data", a, nomad.VolumeSingleNodeWriter, csi.ClaimWrite)
	if r := w.submit(place(w.plan(job), testlog.NewAlloc(job, n2))); len(r.RejectedNodes) != 1 {
		t.Errorf("a writer beside a sibling that goes on: %+v", r)
	}
	stop := func(p *nomad.Plan) *nomad.Plan {
		p.NodeUpdate[n1.ID] = []*nomad.Allocation{{ID: a.ID, NodeID: n1.ID, JobID: job.ID, Namespace: job.Namespace,
			DesiredStatus: nomad.AllocDesiredStatusStop}}
		return p
	}
	other := w.claims("data", nomad.VolumeSingleNodeWriter)
	if r := w.submit(stop(place(w.plan(job), testlog.NewAlloc(job, n2)))); len(r.RejectedNodes) != 0 {
		t.Errorf("the successor of a writer: %+v", r)
	}
	if r := w.submit(place(w.plan(other), testlog.NewAlloc(other, n1))); len(r.RejectedNodes) != 1 {
		t.Errorf("a writer of another job beside one that stops: %+v", r)
	}
}

// Each allocation of a job has a volume of its own with per_alloc.
func TestCSI_PerAlloc(t *testing.T) {
	w := start(t)
	for _, id := range []string{"data[0]", "data[1]"} {
		w.csiVolume(id)
	}
	n := w.csiNode(9)
	job := w.claims("data", nomad.VolumeSingleNodeWriter, func(r *nomad.VolumeRequest) { r.PerAlloc = true })
	p := w.plan(job)
	for i := range uint(2) {
		place(p, testlog.NewAlloc(job, n, func(a *nomad.Allocation) { a.Name = nomad.AllocName(job.ID, "g", i) }))
	}
	if r := w.submit(p); len(r.RejectedNodes) != 0 {
		t.Errorf("two volumes: %+v", r)
	}
	third := testlog.NewAlloc(job, n, func(a *nomad.Allocation) { a.Name = nomad.AllocName(job.ID, "g", 2) })
	if r := w.submit(place(w.plan(job), third)); len(r.RejectedNodes) != 1 {
		t.Errorf("a volume that does not exist: %+v", r)
	}
}

// The writer of a plan that is being committed counts, with the job of its own plan. If the commit fails, it does not.
func TestCSI_InFlight(t *testing.T) {
	for _, fails := range []error{nil, errors.New("leadership lost")} {
		w := start(t)
		w.csiVolume("data")
		n1, n2 := w.csiNode(9), w.csiNode(9)
		first := w.claims("data", nomad.VolumeSingleNodeWriter)
		second := w.Job(t, nomad.JobTypeService, 1, func(j *nomad.Job) { // its group g mounts nothing
			h := *j.TaskGroups[0]
			h.Name, h.Volumes = "h", first.TaskGroups[0].Volumes
			j.TaskGroups = append(j.TaskGroups, &h)
		})
		g := w.gate()
		w.minter.signed = make(chan int, 10)
		one := w.submitLater(named(place(w.plan(first), testlog.NewAlloc(first, n1)), first.Namespace, first.ID))
		<-g.arrived
		<-w.minter.signed
		two := w.submitLater(place(w.plan(second), testlog.NewAlloc(second, n1),
			testlog.NewAlloc(second, n2, func(a *nomad.Allocation) { a.TaskGroup = "h" })))
		<-w.minter.signed // its check is complete while the first is held
		g.open <- fails
		g.open <- nil
		<-one
		if r := <-two; r.err != nil || (len(r.r.RejectedNodes) == 0) != (fails != nil) {
			t.Errorf("the first commit: %v; second plan: %+v", fails, r.r)
		}
	}
}

// A volume may be deregistered, withheld or without a healthy plugin after the scheduler has chosen a node. None of this is a
// fault of the node.
func TestCSI_Volume(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, n *nomad.Node)
		after  bool // it fits after a release
	}{
		"deregistered": {func(w *world, _ *nomad.Node) {
			w.Must(t, message.CSIVolumeDeregisterRequestType, &message.CSIVolumeDeregisterRequest{VolumeIDs: []string{"data"},
				WriteRequest: message.WriteRequest{Namespace: "default"}})
		}, false},
		"withheld": {func(w *world, _ *nomad.Node) { w.release = w.applier.Withhold(csi.Resource("default", "data")) }, true},
		"unschedulable": {func(w *world, n *nomad.Node) {
			changed := *n
			info := *n.CSINodePlugins["p"]
			info.Healthy, changed.CSINodePlugins = false, map[string]*nomad.CSIInfo{"p": &info}
			w.Must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &changed})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWith(t, plan.Rejections{Enabled: true, Threshold: 1, Window: time.Hour})
			w.csiVolume("data")
			n := w.csiNode(9)
			job := w.claims("data", nomad.VolumeSingleNodeWriter)
			p := place(w.plan(job), testlog.NewAlloc(job, n))
			w.release = func() {}
			c.change(w, n)
			if r := w.submit(p); len(r.RejectedNodes) != 1 {
				t.Errorf("%+v, want the node rejected", r)
			}
			if !w.Snapshot().Node(nil, n.ID).Ready() {
				t.Error("the node became ineligible for a volume")
			}
			w.release()
			if r := w.submit(place(w.plan(job), testlog.NewAlloc(job, n))); (len(r.RejectedNodes) == 0) != c.after {
				t.Errorf("after the release: %+v", r)
			}
		})
	}
}

// A node attaches no more volumes than its plugin allows. A volume that it has, and one whose only user is replaced, does not
// count again.
func TestCSI_Limit(t *testing.T) {
	w := startWith(t, plan.Rejections{Enabled: true, Threshold: 1, Window: time.Hour})
	for _, id := range []string{"a", "b", "c"} {
		w.csiVolume(id)
	}
	n := w.csiNode(2)
	reads := func(id string) *nomad.Job { return w.claims(id, nomad.VolumeMultiNodeReader) }
	jobA, jobB, jobC := reads("a"), reads("b"), reads("c")
	p := w.plan(jobC)
	first := testlog.NewAlloc(jobA, n)
	w.submit(place(w.plan(jobA), first))
	w.submit(place(w.plan(jobB), testlog.NewAlloc(jobB, n)))
	if r := w.submit(place(p, testlog.NewAlloc(jobC, n))); len(r.RejectedNodes) != 1 {
		t.Errorf("a third volume: %+v", r)
	}
	if !w.Snapshot().Node(nil, n.ID).Ready() {
		t.Error("the node became ineligible for a volume")
	}
	if r := w.submit(place(w.plan(jobB), testlog.NewAlloc(jobB, n))); len(r.RejectedNodes) != 0 {
		t.Errorf("another reader of an attached volume: %+v", r)
	}
	next := testlog.NewAlloc(jobC, n)
	next.PreviousAllocation = first.ID
	if r := w.submit(place(w.plan(jobC), next)); len(r.RejectedNodes) != 0 {
		t.Errorf("the successor of the only reader: %+v", r)
	}
	// Two volumes in one plan, where one fits.
	w2 := start(t)
	w2.csiVolume("data[0]")
	w2.csiVolume("data[1]")
	m := w2.csiNode(1)
	each := w2.claims("data", nomad.VolumeSingleNodeWriter, func(r *nomad.VolumeRequest) { r.PerAlloc = true })
	two := w2.plan(each)
	for i := range uint(2) {
		place(two, testlog.NewAlloc(each, m, func(a *nomad.Allocation) { a.Name = nomad.AllocName(each.ID, "g", i) }))
	}
	if r := w2.submit(two); len(r.RejectedNodes) != 1 {
		t.Errorf("two volumes on a node for one: %+v", r)
	}
}
