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

// BenchmarkLook measures a look at 10,000 volumes whose allocations run.
func BenchmarkLook(b *testing.B) {
	l := testlog.New(nil)
	n := *l.Node(b)
	for _, e := range csitest.Place(&n, "ebs", csi.PluginMonolith) {
		l.Must(b, e.Type, e.Body)
	}
	l.Must(b, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
	job := l.Job(b, nomad.JobTypeService, 1)
	for i := range 10_000 {
		id := fmt.Sprintf("v-%d", i)
		v := &csi.Volume{ID: id, Namespace: "default", PluginID: "ebs", RequestedCapabilities: []*csi.Capability{
			{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}}
		l.Must(b, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{v}})
		l.Must(b, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: id, AllocationID: l.Alloc(b, job, &n).ID,
			NodeID: n.ID, Claim: csi.ClaimWrite, WriteRequest: message.WriteRequest{Namespace: "default"}})
	}
	r := &run{Watcher: New(Config{Store: l.Store, Log: slog.New(slog.DiscardHandler)}), volumes: map[volumeKey]*volume{}}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for b.Loop() {
		ws := memdb.NewWatchSet()
		r.look(l.Snapshot(), ws, time.Now())
		ws.WatchCtx(ended)
	}
}
