package scheduler_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

func (w *world) Alloc(_ memdb.WatchSet, id string) *nomad.Allocation { return w.allocs[id] }

func (w *world) CSIVolume(_ memdb.WatchSet, namespace, id string) *csi.Volume {
	if v := w.csi[id]; v != nil && v.Namespace == namespace {
		return v
	}
	return nil
}

func (w *world) ShownCSIVolume(_ memdb.WatchSet, v *csi.Volume) *csi.Volume { return v }

func (w *world) CSIVolumeUsers(_ memdb.WatchSet, namespace, id string) iter.Seq[*nomad.Allocation] {
	return filterSeq(sorted(w.allocs), func(a *nomad.Allocation) bool {
		return a.Namespace == namespace && w.uses(a) &&
			slices.ContainsFunc(a.CSIRequests(a.Job), func(r *nomad.VolumeRequest) bool { return r.SourceFor(a.Name) == id })
	})
}

func (w *world) CSIVolumesOnNode(node string) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	add := func(v *csi.Volume) {
		if out[v.PluginID] == nil {
			out[v.PluginID] = map[string]bool{}
		}
		out[v.PluginID][v.Namespace+"/"+v.ID] = true
	}
	for _, v := range w.csi {
		for _, claims := range []map[string]*csi.Claim{v.ReadClaims, v.WriteClaims} {
			for _, c := range claims {
				if c.NodeID == node {
					add(v)
				}
			}
		}
	}
	for a := range w.LiveAllocsByNode(node) {
		for _, r := range a.CSIRequests(a.Job) {
			if v := w.CSIVolume(nil, a.Namespace, r.SourceFor(a.Name)); v != nil {
				add(v)
			}
		}
	}
	return out
}

// addCSI adds a volume of the plugin "p" that one allocation may write to, or any may read.
func (w *world) addCSI(id string, edit ...func(*csi.Volume)) *csi.Volume {
	v := &csi.Volume{ID: id, Namespace: "default", PluginID: "p", Schedulable: true, NodesHealthy: 1, RequestedCapabilities: []*csi.Capability{
		{AccessMode: nomad.VolumeSingleNodeWriter}, {AccessMode: nomad.VolumeMultiNodeReader}}}
	for _, f := range edit {
		f(v)
	}
	if w.csi == nil {
		w.csi = map[string]*csi.Volume{}
	}
	w.csi[id] = v
	return v
}

// held gives a volume a claim of an allocation of another job on node n9.
func (w *world) held(v *csi.Volume, alloc string, c csi.Claim) {
	c.AllocationID, c.NodeID = alloc, "n9"
	v.AccessMode = c.AccessMode
	if c.Mode == csi.ClaimWrite {
		v.WriteClaims = map[string]*csi.Claim{alloc: &c}
	} else {
		v.ReadClaims = map[string]*csi.Claim{alloc: &c}
	}
	w.set(&nomad.Allocation{ID: alloc, Name: "other.g[0]", Namespace: "default", JobID: "other", NodeID: "n9", TaskGroup: "g",
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusRunning, CreateIndex: 1,
		Job: &nomad.Job{ID: "other", Namespace: "default"}})
}

// runs gives a node a healthy instance of the plugin "p".
func runs(edit ...func(*nomad.CSIInfo)) func(*nomad.Node) {
	return func(n *nomad.Node) {
		info := &nomad.CSIInfo{PluginID: "p", Healthy: true, NodeInfo: &nomad.CSINodeInfo{ID: n.ID, MaxVolumes: 1 << 40}}
		for _, f := range edit {
			f(info)
		}
		n.CSINodePlugins = map[string]*nomad.CSIInfo{"p": info}
	}
}

func limit(n int64) func(*nomad.CSIInfo) { return func(i *nomad.CSIInfo) { i.NodeInfo.MaxVolumes = n } }

func zone(z string) func(*nomad.CSIInfo) {
	return func(i *nomad.CSIInfo) {
		i.NodeInfo.AccessibleTopology = &nomad.CSITopology{Segments: map[string]string{"zone": z}}
	}
}

// mounts makes a job request CSI volumes: each is the source, after "@" for a reader of many, or "+" for a writer of many.
func mounts(sources ...string) func(*nomad.Job) {
	return func(j *nomad.Job) {
		for _, source := range sources {
			r := &nomad.VolumeRequest{Name: source, Type: "csi", Source: source, AccessMode: nomad.VolumeSingleNodeWriter,
				AttachmentMode: nomad.VolumeAttachFilesystem}
			switch source[0] {
			case '@':
				r.Source, r.ReadOnly, r.AccessMode = source[1:], true, nomad.VolumeMultiNodeReader
			case '+':
				r.Source, r.AccessMode = source[1:], nomad.VolumeMultiNodeMultiWriter
			}
			for _, tg := range j.TaskGroups {
				if tg.Volumes == nil {
					tg.Volumes = map[string]*nomad.VolumeRequest{}
				}
				tg.Volumes[source] = r
			}
		}
	}
}

// TestCSI_Place checks each reason why a node does not serve a CSI volume, and which comes first.
func TestCSI_Place(t *testing.T) {
	const exhausted = "CSI volume data has exhausted its available writer claims"
	const unwritable = "CSI volume data is unschedulable or is read-only"
	const unreadable = "CSI volume data is unschedulable or has exhausted its available reader claims"
	held := func(c csi.Claim) func(w *world, v *csi.Volume) {
		return func(w *world, v *csi.Volume) { w.held(v, "a9", c) }
	}
	writer := csi.Claim{Mode: csi.ClaimWrite, AccessMode: nomad.VolumeSingleNodeWriter}
	for name, c := range map[string]struct {
		node   func(*nomad.Node)
		volume func(w *world, v *csi.Volume)
		wants  []string // default: data
		why    string   // "" if it is placed
		waits  []string
	}{
		"free":         {},
		"missing":      {wants: []string{"data", "b", "a"}, why: "missing CSI volume(s) a, b", waits: []string{"csi-volume:default:a", "csi-volume:default:b"}},
		"no plugin":    {node: func(*nomad.Node) {}, why: "CSI plugin p is missing from client n1"},
		"other plugin": {volume: func(_ *world, v *csi.Volume) { v.PluginID = "q" }, why: "CSI plugin q is missing from client n1"},
		"unhealthy": {node: runs(limit(0), func(i *nomad.CSIInfo) { i.Healthy = false }),
			why: "CSI plugin p is unhealthy on client n1"},
		"at the limit": {node: runs(limit(1), zone("b")), wants: []string{"data", "more"},
			volume: func(w *world, _ *csi.Volume) { w.addCSI("more") },
			why:    "CSI plugin p has the maximum number of volumes on client n1"},
		"below the limit":         {node: runs(limit(2)), wants: []string{"data", "@more"}, volume: func(w *world, _ *csi.Volume) { w.addCSI("more") }},
		"limit, one volume twice": {node: runs(limit(1)), wants: []string{"data", "@data"}},
		"topology": {node: runs(zone("a")), why: "did not meet topology requirement", waits: []string{"csi-volume:default:data"}, volume: func(_ *world, v *csi.Volume) {
			v.Topologies = []*nomad.CSITopology{nil, {Segments: map[string]string{"zone": "b"}}}
			v.Schedulable = false
		}},
		"topology met": {node: runs(zone("b")), volume: func(_ *world, v *csi.Volume) {
			v.Topologies = []*nomad.CSITopology{{Segments: map[string]string{"zone": "b"}}}
		}},
		"reader, unschedulable": {wants: []string{"@data"}, volume: func(_ *world, v *csi.Volume) { v.Schedulable = false },
			why: unreadable, waits: []string{"csi-volume:default:data"}},
		"writer, unschedulable": {volume: func(_ *world, v *csi.Volume) { v.Schedulable = false },
			why: unwritable, waits: []string{"csi-volume:default:data"}},
		"writer, read-only volume": {why: unwritable, waits: []string{"csi-volume:default:data"},
			volume: func(_ *world, v *csi.Volume) { v.RequestedCapabilities = v.RequestedCapabilities[1:] }},
		"reader, read-only volume": {wants: []string{"@data"},
			volume: func(_ *world, v *csi.Volume) { v.RequestedCapabilities = v.RequestedCapabilities[1:] }},
		"writer beside a writer": {volume: held(writer), why: exhausted, waits: []string{"csi-volume:default:data"}},
		"writer beside a collected writer": {volume: func(w *world, v *csi.Volume) {
			w.held(v, "a9", writer)
			delete(w.allocs, "a9")
			delete(w.byNode["n9"], "a9")
		}, why: exhausted + " and is claimed by a garbage collected allocation a9; waiting for claim to be released",
			waits: []string{"csi-volume:default:data"}},
		"writer beside an ended writer": {volume: func(w *world, v *csi.Volume) {
			w.held(v, "a9", writer)
			w.allocs["a9"].ClientStatus = nomad.AllocClientStatusComplete
		}, why: exhausted, waits: []string{"csi-volume:default:data"}},
		"reader beside a writer":     {wants: []string{"@data"}, volume: held(writer), why: unreadable, waits: []string{"csi-volume:default:data"}},
		"reader beside many readers": {wants: []string{"@data"}, volume: held(csi.Claim{AccessMode: nomad.VolumeMultiNodeReader})},
		"reader beside the only reader": {wants: []string{"@data"}, volume: held(csi.Claim{AccessMode: nomad.VolumeSingleNodeReader}),
			why: unreadable, waits: []string{"csi-volume:default:data"}},
		"writer beside readers": {volume: held(csi.Claim{AccessMode: nomad.VolumeMultiNodeReader}), why: unwritable,
			waits: []string{"csi-volume:default:data"}},
		"writer beside one of many writers": {wants: []string{"+data"},
			volume: held(csi.Claim{Mode: csi.ClaimWrite, AccessMode: nomad.VolumeMultiNodeMultiWriter})},
		"writer beside one of many writers, with a mode for one": {volume: held(csi.Claim{Mode: csi.ClaimWrite,
			AccessMode: nomad.VolumeMultiNodeMultiWriter}), why: exhausted, waits: []string{"csi-volume:default:data"}},
		"reader beside the writer of many nodes": {wants: []string{"@data"},
			volume: held(csi.Claim{Mode: csi.ClaimWrite, AccessMode: nomad.VolumeMultiNodeSingleWriter})},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v := w.addCSI("data")
			if c.volume != nil {
				c.volume(w, v)
			}
			if c.node == nil {
				c.node = runs()
			}
			w.addNode("n1", c.node)
			if c.wants == nil {
				c.wants = []string{"data"}
			}
			w.register(job(nomad.JobTypeService, 1, mounts(c.wants...)))
			e := w.process()
			placed := slices.DeleteFunc(w.live(), func(a *nomad.Allocation) bool { return a.JobID != "j" })
			if c.why == "" {
				if len(placed) != 1 {
					t.Errorf("placed %d, failed %+v", len(placed), e.FailedTGAllocs["g"])
				}
				return
			}
			if m := e.FailedTGAllocs["g"]; len(placed) != 0 || m == nil || m.ConstraintFiltered[c.why] != 1 || m.NodesFiltered != 1 {
				t.Errorf("placed %d, metric %+v, want %q", len(placed), m, c.why)
			}
			if b := w.created[len(w.created)-1]; !b.EscapedComputedClass || !slices.Equal(b.MissingNonNodeResources, c.waits) {
				t.Errorf("the blocked evaluation waits for %v (escaped %t), want %v", b.MissingNonNodeResources, b.EscapedComputedClass, c.waits)
			}
			if !slices.Equal(e.MissingNonNodeResources, c.waits) {
				t.Errorf("the evaluation waits for %v", e.MissingNonNodeResources)
			}
		})
	}
}

// A volume that a group lacks is not noted any more when it exists.
func TestCSI_Registered(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", runs())
	w.register(job(nomad.JobTypeService, 1, mounts("data")))
	w.process()
	blocked := func(e *nomad.Evaluation) { e.Status = nomad.EvalStatusBlocked }
	w.process(blocked)
	if len(w.reblocked) != 1 || !slices.Equal(w.reblocked[0].MissingNonNodeResources, []string{"csi-volume:default:data"}) {
		t.Fatalf("reblocked %+v", w.reblocked)
	}
	w.addCSI("data")
	if e := w.process(blocked); len(w.live()) != 1 || len(e.MissingNonNodeResources) != 0 {
		t.Errorf("placed %d, evaluation %+v", len(w.live()), e)
	}
}

// Each allocation has a volume of its own with per_alloc. One without a volume does not hinder the others.
func TestCSI_PerAlloc(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", runs(limit(2)))
	w.addNode("n2", runs(limit(1)))
	for _, i := range []int{0, 1, 3, 4} {
		w.addCSI(fmt.Sprintf("data[%d]", i))
	}
	w.register(job(nomad.JobTypeService, 4, mounts("data"), func(j *nomad.Job) { j.TaskGroups[0].Volumes["data"].PerAlloc = true }))
	e := w.process()
	wantNames(t, w.live(), "j.g[0]", "j.g[1]", "j.g[3]")
	perNode := map[string]int{}
	for _, a := range w.live() {
		perNode[a.NodeID]++
	}
	if !maps.Equal(perNode, map[string]int{"n1": 2, "n2": 1}) {
		t.Errorf("allocations by node: %v, want the limits", perNode)
	}
	if m := e.FailedTGAllocs["g"]; m == nil || m.ConstraintFiltered["missing CSI volume(s) data[2]"] != 2 {
		t.Errorf("metric = %+v", m)
	}
	// All volumes that the nodes can attach are attached.
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 5 })
	e = w.process()
	if m := e.FailedTGAllocs["g"]; len(w.live()) != 3 || m == nil || m.CoalescedFailures != 1 {
		t.Errorf("placed %d, metric %+v", len(w.live()), m)
	}
}

// A claim is given once: to the first of several allocations of a plan, of plans before their claims, and never beside a
// sibling that goes on.
func TestCSI_OneWriter(t *testing.T) {
	w := newWorld(t)
	w.addCSI("data")
	for i := range 3 {
		w.addNode(fmt.Sprint("n", i), runs())
	}
	w.register(job(nomad.JobTypeService, 2, mounts("data")))
	e := w.process()
	if m := e.FailedTGAllocs["g"]; len(w.live()) != 1 || m == nil {
		t.Fatalf("placed %d of two writers in one plan", len(w.live()))
	}
	w.process() // the first has not claimed its volume yet
	if len(w.live()) != 1 {
		t.Errorf("placed %d writers before the claim of the first", len(w.live()))
	}
	other := job(nomad.JobTypeService, 1, mounts("data"), func(j *nomad.Job) { j.ID = "k" })
	w.jobs["k"] = other
	w.process(func(e *nomad.Evaluation) { e.JobID = "k" })
	if len(w.live()) != 1 {
		t.Errorf("placed a writer of another job before the claim of the first")
	}
	w.report(nomad.AllocClientStatusComplete, nil, w.live()...)
	w.process(func(e *nomad.Evaluation) { e.JobID = "k" })
	if live := w.live(); len(live) != 1 || live[0].JobID != "k" {
		t.Errorf("live: %v", names(live))
	}
	readers := newWorld(t)
	readers.addCSI("data")
	readers.addNode("n1", runs(limit(1)))
	readers.register(job(nomad.JobTypeService, 3, mounts("@data")))
	if readers.process(); len(readers.live()) != 3 {
		t.Errorf("placed %d of 3 readers of one volume on one node", len(readers.live()))
	}
}

// claimAll records the claims of all live allocations on a volume, as their clients do.
func (w *world) claimAll(id string) {
	v := w.csi[id]
	v.WriteClaims, v.ReadClaims, v.AccessMode = map[string]*csi.Claim{}, map[string]*csi.Claim{}, ""
	for a := range w.CSIVolumeUsers(nil, "default", id) {
		for _, r := range a.CSIRequests(a.Job) {
			c := &csi.Claim{AllocationID: a.ID, NodeID: a.NodeID, AccessMode: r.AccessMode, Mode: csi.ClaimWrite}
			if r.Reads() {
				c.Mode = csi.ClaimRead
				v.ReadClaims[a.ID] = c
			} else {
				v.WriteClaims[a.ID] = c
			}
			v.AccessMode = c.AccessMode
		}
	}
}

// The successor of an allocation is placed before the claim of its predecessor is free, whatever ends the predecessor. A
// canary, which runs beside it, is not.
func TestCSI_Successor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, a *nomad.Allocation)
		placed bool
	}{
		"update": {func(w *world, _ *nomad.Allocation) {
			w.change(func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"A": "1"} })
		}, true},
		"update to a reader": {func(w *world, _ *nomad.Allocation) {
			w.change(func(j *nomad.Job) { j.TaskGroups[0].Volumes = nil; mounts("@data")(j) })
		}, true},
		"update to another volume": {func(w *world, _ *nomad.Allocation) {
			w.addCSI("log")
			w.change(func(j *nomad.Job) { j.TaskGroups[0].Volumes = nil; mounts("log")(j) })
		}, true},
		"canary": {func(w *world, _ *nomad.Allocation) {
			w.change(func(j *nomad.Job) {
				j.TaskGroups[0].Tasks[0].Env = map[string]string{"A": "1"}
				j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 1, Canary: 1}
			})
		}, false},
		"failure": {func(w *world, a *nomad.Allocation) { w.report(nomad.AllocClientStatusFailed, nil, a) }, true},
		"lost node": {func(w *world, a *nomad.Allocation) {
			n := *w.nodes["n1"]
			n.Status = nomad.NodeStatusDown
			w.nodes["n1"] = &n
			w.addNode("n2", runs(limit(1)))
		}, true},
		"drain": {func(w *world, a *nomad.Allocation) {
			moved, yes := *a, true
			moved.DesiredTransition = nomad.DesiredTransition{Migrate: &yes}
			w.set(&moved)
			w.nodes["n1"].DrainStrategy = &nomad.DrainStrategy{}
			w.addNode("n2", runs(limit(1)))
		}, true},
		"stop": {func(w *world, a *nomad.Allocation) {
			stopped, yes := *a, true
			stopped.DesiredTransition = nomad.DesiredTransition{Migrate: &yes}
			w.set(&stopped)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.slow = true
			w.addCSI("data")
			w.addNode("n1", runs(limit(1)))
			w.register(job(nomad.JobTypeService, 1, mounts("data"), func(j *nomad.Job) {
				j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true}
				j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 1}
			}))
			w.process()
			first := w.live()[0]
			w.report(nomad.AllocClientStatusRunning, nil, first)
			w.claimAll("data")
			c.change(w, w.allocs[first.ID])
			e := w.process()
			var next []*nomad.Allocation
			for _, a := range w.live() {
				if a.ID != first.ID {
					next = append(next, a)
				}
			}
			if placed := len(next) == 1; placed != c.placed {
				t.Errorf("placed %v, want %t; failed %+v", names(next), c.placed, e.FailedTGAllocs["g"])
			}
			if old := w.allocs[first.ID]; c.placed && !old.TerminalStatus() {
				t.Errorf("the predecessor does not stop: %s", old.DesiredStatus)
			}
		})
	}
}

// An unhealthy plugin, a missing topology and a volume that is gone do not touch running allocations, also in an update in place.
func TestCSI_InPlace(t *testing.T) {
	w := newWorld(t)
	v := w.addCSI("data")
	w.addNode("n1", runs())
	w.register(job(nomad.JobTypeService, 1, mounts("data")))
	w.process()
	before := w.live()
	w.claimAll("data")
	w.nodes["n1"].CSINodePlugins["p"].Healthy, v.Schedulable = false, false
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].KillTimeout = 7 })
	w.process()
	delete(w.csi, "data")
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].KillTimeout = 8 })
	w.process()
	if after := w.live(); len(after) != 1 || after[0].ID != before[0].ID || after[0].Job.Version != 2 {
		t.Errorf("live %v, was %v", names(after), names(before))
	}
}

// A system job runs on the nodes with the plugin. It waits for a volume that is not free, and not for other nodes.
func TestCSI_System(t *testing.T) {
	for _, typ := range []string{nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		w := newWorld(t)
		v := w.addCSI("data")
		w.addNode("n1", runs())
		w.addNode("n2")
		w.addNode("n3", runs())
		w.register(job(typ, 1, mounts("@data")))
		if e := w.process(); len(w.live()) != 2 || len(e.FailedTGAllocs) != 0 {
			t.Errorf("%s: placed %d, failed %+v", typ, len(w.live()), e.FailedTGAllocs)
		}
		w.addNode("n4", runs())
		v.Schedulable = false
		e := w.process()
		if m := e.FailedTGAllocs["g"]; m == nil || m.NodesFiltered != 1 || !slices.Equal(e.MissingNonNodeResources, []string{"csi-volume:default:data"}) {
			t.Errorf("%s: failed %+v, waits for %v", typ, m, e.MissingNonNodeResources)
		}
	}
}

// Two groups that exchange their volumes wait for one another: both stop together.
func TestCSI_Swap(t *testing.T) {
	w := newWorld(t)
	w.addCSI("a")
	w.addCSI("b")
	w.addNode("n1", runs(limit(2)))
	two := func(first, second string) func(*nomad.Job) {
		return func(j *nomad.Job) {
			g := *j.TaskGroups[0]
			g.Name = "h"
			j.TaskGroups = []*nomad.TaskGroup{j.TaskGroups[0], &g}
			for i, source := range []string{first, second} {
				one := &nomad.Job{TaskGroups: []*nomad.TaskGroup{{}}}
				mounts(source)(one)
				j.TaskGroups[i].Volumes = one.TaskGroups[0].Volumes
			}
		}
	}
	w.slow = true
	w.register(job(nomad.JobTypeService, 1, two("a", "b")))
	w.process()
	old := w.live()
	w.report(nomad.AllocClientStatusRunning, nil, old...)
	w.claimAll("a")
	w.claimAll("b")
	w.register(job(nomad.JobTypeService, 1, two("b", "a")))
	w.process()
	for _, a := range old {
		if w.allocs[a.ID].DesiredStatus != nomad.AllocDesiredStatusStop {
			t.Errorf("%s goes on", a.Name)
		}
	}
}
