package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
)

// has returns an edit that adds host volumes to a node; a name that begins with ! is read-only.
func has(names ...string) func(*nomad.Node) {
	return func(n *nomad.Node) {
		n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{}
		for _, name := range names {
			v := &nomad.ClientHostVolumeConfig{Name: name, Path: "/srv"}
			if name[0] == '!' {
				v.Name, v.ReadOnly = name[1:], true
			}
			n.HostVolumes[v.Name] = v
		}
		n.ComputedClass = nodeclass.Of(n)
	}
}

func wants(v nomad.VolumeRequest) func(*nomad.Job) {
	return func(j *nomad.Job) {
		v.Name, v.Type = "v", "host"
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": &v}
	}
}

func TestVolume_Place(t *testing.T) {
	for _, c := range []struct {
		name string
		node func(*nomad.Node)
		v    nomad.VolumeRequest
		fits bool
	}{
		{"there", has("data"), nomad.VolumeRequest{Source: "data"}, true},
		{"another", has("log"), nomad.VolumeRequest{Source: "data"}, false},
		{"write access, read-only volume", has("!data"), nomad.VolumeRequest{Source: "data"}, false},
		{"read access, read-only volume", has("!data"), nomad.VolumeRequest{Source: "data", ReadOnly: true}, true},
		{"reader-only access mode", has("!data"), nomad.VolumeRequest{Source: "data", AccessMode: "single-node-reader-only"}, true},
		{"read access", has("data"), nomad.VolumeRequest{Source: "data", ReadOnly: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("n1", c.node)
			w.addNode("n2")
			w.register(job(nomad.JobTypeService, 1, wants(c.v)))
			e := w.process()
			live := w.live()
			if !c.fits {
				if m := e.FailedTGAllocs["g"]; len(live) != 0 || m == nil || m.ConstraintFiltered[`missing compatible host volume "data"`] != 2 {
					t.Errorf("placed %d, metric %+v", len(live), m)
				}
				return
			}
			if len(live) != 1 || live[0].NodeID != "n1" {
				t.Errorf("placed %+v, failed %+v", live, e.FailedTGAllocs)
			}
		})
	}
}

// A group that waits for a volume is unblocked by a new class of nodes.
func TestVolume_Unblocks(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 1, wants(nomad.VolumeRequest{Source: "data"})))
	w.process()
	if len(w.created) != 1 {
		t.Fatalf("created %+v, want a blocked evaluation", w.created)
	}
	class := w.nodes["n1"].ComputedClass
	if b := w.created[0]; b.EscapedComputedClass || b.ClassEligibility[class] || len(b.ClassEligibility) != 1 {
		t.Errorf("blocked = %+v", b)
	}
	w.addNode("n2", has("data"))
	if w.nodes["n2"].ComputedClass == class {
		t.Error("nodes with and without a volume have the same class")
	}
	w.process(func(e *nomad.Evaluation) { e.Status = nomad.EvalStatusBlocked })
	if live := w.live(); len(live) != 1 || live[0].NodeID != "n2" {
		t.Errorf("placed %+v", live)
	}
}

// Each allocation is placed on the node with its own volume. One without a volume does not prevent
// the others from being placed, and any node may unblock it.
func TestVolume_PerAlloc(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", has("data[2]"))
	w.addNode("n2", has("data[0]", "!data[3]"))
	w.register(job(nomad.JobTypeService, 4, wants(nomad.VolumeRequest{Source: "data", PerAlloc: true})))
	e := w.process()
	got := map[string]string{}
	for _, a := range w.live() {
		got[a.Name] = a.NodeID
	}
	if len(got) != 2 || got["j.g[0]"] != "n2" || got["j.g[2]"] != "n1" {
		t.Errorf("placed %v", got)
	}
	m := e.FailedTGAllocs["g"]
	if m == nil || m.CoalescedFailures != 1 || m.ConstraintFiltered[`missing compatible host volume "data[1]"`] != 2 {
		t.Errorf("metric = %+v", m)
	}
	if len(w.created) != 1 || !w.created[0].EscapedComputedClass || e.QueuedAllocations["g"] != 2 {
		t.Errorf("created %+v, evaluation %+v", w.created, e)
	}
}

// An allocation keeps its node as long as its volume is there.
func TestVolume_InPlace(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", has("data[0]"))
	edit := wants(nomad.VolumeRequest{Source: "data", PerAlloc: true})
	w.register(job(nomad.JobTypeService, 1, edit))
	w.process()
	before := w.live()
	w.register(job(nomad.JobTypeService, 1, edit, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].KillTimeout = 7 }))
	w.process()
	if after := w.live(); len(before) != 1 || len(after) != 1 || after[0].ID != before[0].ID {
		t.Errorf("live %+v, was %+v", after, before)
	}
}

func TestNetworkNone_Missing(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", func(n *nomad.Node) {
		n.Attributes[nomad.AttrNetworkNone] = "false"
		n.ComputedClass = nodeclass.Of(n)
	})
	w.register(job(nomad.JobTypeService, 1, func(j *nomad.Job) { j.TaskGroups[0].Networks = nomad.Networks{{Mode: "none"}} }))
	if m := w.process().FailedTGAllocs["g"]; m == nil || m.ConstraintFiltered[`missing network "none"`] != 1 {
		t.Errorf("metric = %+v", m)
	}
	w.addNode("n2")
	w.process()
	if live := w.live(); len(live) != 1 || live[0].NodeID != "n2" {
		t.Errorf("placed %+v", live)
	}
}

// A group that met a dynamic volume waits for any node: its class does not tell whether the volume is ready. One that
// met static volumes only waits for another class.
func TestVolume_Escapes(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", has("data"))
	w.nodes["n1"].HostVolumes["data"].ID = "v1"
	w.volumes = []*hostvolume.Volume{{ID: "v1", NodeID: "n1", Name: "data", Namespace: "default", State: "pending"}}
	w.volumes[0].Canonicalize()
	w.register(job(nomad.JobTypeService, 1, wants(nomad.VolumeRequest{Source: "data"})))
	w.process()
	if len(w.created) != 1 || !w.created[0].EscapedComputedClass {
		t.Fatalf("created %+v, want a blocked evaluation that any node unblocks", w.created)
	}
	w.volumes[0].State = "ready"
	w.process(func(e *nomad.Evaluation) { e.Status = nomad.EvalStatusBlocked })
	if live := w.live(); len(live) != 1 {
		t.Errorf("placed %+v", live)
	}
}
