package claims

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

// BenchmarkLook measures a look at 1,000 volumes, each with 20 claims of running allocations, after a change of one of these.
func BenchmarkLook(b *testing.B) {
	l := testlog.New(nil)
	n := *l.Node(b)
	for _, e := range csitest.Place(&n, "ebs", csi.PluginMonolith) {
		l.Must(b, e.Type, e.Body)
	}
	l.Must(b, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
	job := l.Job(b, nomad.JobTypeService, 1)
	var a *nomad.Allocation
	for i := range 1000 {
		id := fmt.Sprintf("v-%d", i)
		l.Must(b, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: id, Namespace: "default",
			PluginID: "ebs", RequestedCapabilities: []*csi.Capability{{AccessMode: nomad.VolumeMultiNodeMultiWriter,
				AttachmentMode: nomad.VolumeAttachFilesystem}}}}})
		for range 20 {
			a = l.Alloc(b, job, &n)
			l.Must(b, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: id, AllocationID: a.ID, Claim: csi.ClaimWrite,
				AccessMode: nomad.VolumeMultiNodeMultiWriter, WriteRequest: message.WriteRequest{Namespace: "default"}})
		}
	}
	r := &run{Watcher: New(Config{Store: l.Store, Log: slog.New(slog.DiscardHandler)}), volumes: map[volumeKey]*volume{},
		unended: map[volumeKey]*unended{}}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for b.Loop() {
		l.Must(b, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{
			Alloc: []*nomad.Allocation{{ID: a.ID, NodeID: n.ID, ClientStatus: nomad.AllocClientStatusRunning}}})
		ws := memdb.NewWatchSet()
		r.look(l.Snapshot(), ws, time.Now())
		ws.WatchCtx(ended)
	}
}
