package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// volumeWorld is a world with one dynamic volume on each node.
type volumeWorld struct {
	*world
	byNode map[string]*hostvolume.Volume
}

func (w volumeWorld) HostVolumeOn(_ memdb.WatchSet, node, _ string) *hostvolume.Volume {
	return w.byNode[node]
}

// BenchmarkVolumes places an allocation on each of n nodes with a volume of a single writer, whose claims are not met. The
// cost of a placement must not grow with the number of claims and of other allocations. It grows with the logarithm of the
// number of nodes: a search scores that many, and passes those whose volume has a writer.
func BenchmarkVolumes(b *testing.B) {
	for _, nodes := range []int{100, 800, 8000} {
		b.Run(fmt.Sprintf("sticky=true/nodes=%d", nodes), func(b *testing.B) { placeWriters(b, nodes, true) })
		b.Run(fmt.Sprintf("sticky=false/nodes=%d", nodes), func(b *testing.B) { placeWriters(b, nodes, false) })
	}
}

func placeWriters(b *testing.B, nodes int, sticky bool) {
	w := volumeWorld{newWorld(b), map[string]*hostvolume.Volume{}}
	for i := range nodes {
		id := fmt.Sprintf("node-%04d", i)
		w.addNode(id, func(n *nomad.Node) {
			n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{"data": {Name: "data", ID: "vol-" + id}}
		})
		w.byNode[id] = &hostvolume.Volume{ID: "vol-" + id, Name: "data", Namespace: "default", NodeID: id, State: hostvolume.Ready,
			RequestedCapabilities: []*nomad.VolumeCapability{
				{AccessMode: nomad.VolumeSingleNodeSingleWriter, AttachmentMode: nomad.VolumeAttachFilesystem},
			}}
		w.claims = append(w.claims, &hostvolume.Claim{Namespace: "default", JobID: "j", TaskGroupName: "g",
			VolumeID: "vol-" + id, VolumeName: "data", AllocID: "old-" + id})
	}
	w.register(job(nomad.JobTypeService, nodes, func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeHost, Source: "data", Sticky: sticky,
			AccessMode: nomad.VolumeSingleNodeSingleWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}
	}))
	b.ResetTimer()
	began := cpuTime(b)
	for range b.N {
		p := &dryPlanner{}
		s, err := scheduler.New(nomad.JobTypeService, w, p, scheduler.Options{})
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
	b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/float64(nodes*b.N), "cpu-ns/placement")
}
