package rebalance_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rebalance"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

// runsCSI runs the plugin "p" on a node.
func (f *fleet) runsCSI(node string, edit ...func(*nomad.CSINodeInfo)) {
	f.t.Helper()
	n := *f.nodes[node]
	entries := csitest.Place(&n, "p", csi.PluginNode)
	for _, e := range edit {
		e(n.CSINodePlugins["p"].NodeInfo)
	}
	for _, e := range append(entries, csitest.Entry{Type: message.NodeRegisterRequestType, Body: &message.NodeRegisterRequest{Node: &n}}) {
		f.Must(f.t, e.Type, e.Body)
	}
}

// TestPlan_CSI moves four allocations with a claimed volume each from a full node to an empty one.
func TestPlan_CSI(t *testing.T) {
	inZone := func(i *nomad.CSINodeInfo) {
		i.AccessibleTopology = &nomad.CSITopology{Segments: map[string]string{"zone": "a"}}
	}
	for name, c := range map[string]struct {
		plugin func(*fleet)
		want   string
	}{
		"everywhere": {func(f *fleet) { f.runsCSI("a", inZone); f.runsCSI("b", inZone) }, "web a>b, web a>b"},
		"limit": {func(f *fleet) {
			f.runsCSI("a", inZone)
			f.runsCSI("b", inZone, func(i *nomad.CSINodeInfo) { i.MaxVolumes = 1 })
		}, "web a>b"},
		"topology":     {func(f *fleet) { f.runsCSI("a", inZone); f.runsCSI("b") }, ""},
		"not the node": {func(f *fleet) { f.runsCSI("a", inZone) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "a", "b")
			c.plugin(f)
			f.job("web", 4, func(j *nomad.Job) {
				j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "data", PerAlloc: true,
					AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}
			})
			f.place("web", "a", 4)
			for a := range f.Snapshot().AllocsByJob(nil, "default", "web") {
				id := fmt.Sprintf("data[%d]", a.Index())
				f.Must(t, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: id, Name: id,
					Namespace: "default", PluginID: "p", Topologies: []*nomad.CSITopology{{Segments: map[string]string{"zone": "a"}}},
					RequestedCapabilities: []*csi.Capability{{AccessMode: nomad.VolumeSingleNodeWriter}}}}})
				f.Must(t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: id, AllocationID: a.ID, NodeID: a.NodeID,
					Claim: csi.ClaimWrite, AccessMode: nomad.VolumeSingleNodeWriter, WriteRequest: message.WriteRequest{Namespace: "default"}})
			}
			if got := moves(f.plan(rebalance.Options{MaxMoves: 10})); got != c.want {
				t.Errorf("moves = %q, want %q", got, c.want)
			}
		})
	}
}
