package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// BenchmarkVolumes places an allocation on each of n nodes with a volume, whose claims are not met. The cost of a placement
// must not grow with the number of claims and of other allocations.
func BenchmarkVolumes(b *testing.B) {
	for _, nodes := range []int{100, 800} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			w := newWorld(b)
			for i := range nodes {
				id := fmt.Sprintf("node-%04d", i)
				w.addNode(id, func(n *nomad.Node) {
					n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{"data": {Name: "data", ID: "vol-" + id}}
				})
				w.volumes = append(w.volumes, &nomad.HostVolume{ID: "vol-" + id, Name: "data", Namespace: "default", NodeID: id, State: nomad.HostVolumeStateReady,
					RequestedCapabilities: []*nomad.HostVolumeCapability{{AccessMode: nomad.VolumeSingleNodeSingleWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}})
				w.claims = append(w.claims, &nomad.TaskGroupHostVolumeClaim{Namespace: "default", JobID: "j", TaskGroupName: "g", VolumeID: "vol-" + id, VolumeName: "data", AllocID: "old-" + id})
			}
			w.register(job(nomad.JobTypeService, nodes, func(j *nomad.Job) {
				j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeHost, Source: "data", Sticky: true,
					AccessMode: nomad.VolumeSingleNodeSingleWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}
			}))
			b.ResetTimer()
			for range b.N {
				p := &dryPlanner{}
				s, err := scheduler.New(nomad.JobTypeService, slog.New(slog.DiscardHandler), w, p)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Process(context.Background(), w.eval()); err != nil {
					b.Fatal(err)
				}
				if p.placed != nodes {
					b.Fatalf("placed %d, want %d", p.placed, nodes)
				}
			}
			b.ReportMetric(float64(nodes*b.N)/b.Elapsed().Seconds(), "placements/s")
		})
	}
}
