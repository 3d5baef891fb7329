package worker_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

// runCSI runs a part of the plugin "p" on a node, and returns the node as it reports itself.
func (l *leader) runCSI(t *testing.T, n *nomad.Node, kind nomad.CSIPluginType) *nomad.Node {
	t.Helper()
	own := *n
	for _, e := range csitest.Place(&own, "p", kind) {
		l.Must(t, e.Type, e.Body)
	}
	l.report(t, own)
	return &own
}

func (l *leader) report(t *testing.T, n nomad.Node) {
	t.Helper()
	l.Must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
}

func (l *leader) csiVolume(t *testing.T) {
	t.Helper()
	l.Must(t, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: "data", Name: "data",
		Namespace: "default", PluginID: "p", RequestedCapabilities: []*csi.Capability{{AccessMode: nomad.VolumeSingleNodeWriter}}}}})
}

func (l *leader) csiClaim(t *testing.T, alloc *nomad.Allocation, s csi.ClaimState) {
	t.Helper()
	l.Must(t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: "data", AllocationID: alloc.ID,
		NodeID: alloc.NodeID, Claim: csi.ClaimWrite, AccessMode: nomad.VolumeSingleNodeWriter, State: s,
		WriteRequest: message.WriteRequest{Namespace: "default"}})
}

// TestWorker_CSI has a job that waits for its volume. The change of the volume, and not of a node or an allocation, places it.
func TestWorker_CSI(t *testing.T) {
	for name, c := range map[string]struct {
		// before prepares the state and returns the change.
		before func(t *testing.T, l *leader, n *nomad.Node) func()
	}{
		"registered": {func(t *testing.T, l *leader, n *nomad.Node) func() {
			l.runCSI(t, n, csi.PluginNode)
			return func() { l.csiVolume(t) }
		}},
		"freed": {func(t *testing.T, l *leader, n *nomad.Node) func() {
			l.runCSI(t, n, csi.PluginNode)
			l.csiVolume(t)
			other := l.Alloc(t, l.Job(t, nomad.JobTypeBatch, 1), n)
			l.csiClaim(t, other, csi.ClaimTaken)
			l.Must(t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{{ID: other.ID,
				NodeID: n.ID, ClientStatus: nomad.AllocClientStatusComplete}}})
			for _, s := range []csi.ClaimState{csi.ClaimUnpublishing, csi.ClaimNodeDetached} {
				l.csiClaim(t, other, s)
			}
			return func() { l.csiClaim(t, other, csi.ClaimReadyToFree) }
		}},
		"another server of the storage is healthy": {func(t *testing.T, l *leader, n *nomad.Node) func() {
			l.runCSI(t, n, csi.PluginNode)
			l.csiVolume(t)
			// The node of the controller takes no placements.
			second := l.Node(t, func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible })
			controller := *l.runCSI(t, second, csi.PluginController)
			healthy := controller.CSIControllerPlugins["p"]
			ill := *healthy
			ill.Healthy = false
			controller.CSIControllerPlugins = map[string]*nomad.CSIInfo{"p": &ill}
			l.report(t, controller)
			return func() {
				controller.CSIControllerPlugins = map[string]*nomad.CSIInfo{"p": healthy}
				l.report(t, controller)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeader()
			change := c.before(t, l, l.Node(t))
			run(t, l, nil)
			job := l.Job(t, nomad.JobTypeService, 1, func(j *nomad.Job) {
				j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "data",
					AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}
			})
			l.Eval(t, job)
			l.want(t, "Eval.Finish")
			placed := func() int { return len(slices.Collect(l.Snapshot().AllocsByJob(nil, job.Namespace, job.ID))) }
			if n := placed(); n != 0 {
				t.Fatalf("%d allocations before the change", n)
			}
			change()
			l.want(t, "Eval.Finish")
			if n := placed(); n != 1 {
				t.Errorf("%d allocations after the change, want 1", n)
			}
		})
	}
}
