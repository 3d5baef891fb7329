package feasible

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// TestCSIVolume_Always checks that the short way of refuse refuses nothing less than the long one, whichever uses end.
func TestCSIVolume_Always(t *testing.T) {
	modes := []nomad.VolumeAccessMode{nomad.VolumeSingleNodeWriter, nomad.VolumeSingleNodeReader, nomad.VolumeMultiNodeReader,
		nomad.VolumeMultiNodeSingleWriter, nomad.VolumeMultiNodeMultiWriter}
	rng := rand.New(rand.NewPCG(41, 1))
	job, short := nomad.NamespacedID{Namespace: "default", ID: "j"}, 0
	for range 20_000 {
		some := modes[rng.IntN(len(modes)):]
		pick := func() nomad.VolumeAccessMode { return some[rng.IntN(len(some))] }
		v := &CSIVolume{Volume: &csi.Volume{Schedulable: true, RequestedCapabilities: []*csi.Capability{{AccessMode: pick()}}},
			modes: map[nomad.VolumeAccessMode]int{}}
		for i := range rng.IntN(4) {
			u := CSIUse{ID: fmt.Sprint(i), Alloc: &nomad.Allocation{Namespace: "default", JobID: "j", ID: fmt.Sprint(i)}, Mode: pick()}
			u.Writes = oneWriter[u.Mode] || u.Mode == nomad.VolumeMultiNodeMultiWriter
			if rng.IntN(2) == 0 {
				u.Claim = &csi.Claim{AccessMode: u.Mode}
				if v.AccessMode == "" {
					v.AccessMode = u.Mode
				}
			}
			v.add(u)
		}
		r := &nomad.VolumeRequest{AccessMode: pick()}
		r.ReadOnly = r.Reads() || rng.IntN(4) == 0
		if !v.always(r) {
			continue
		}
		short++
		gone := rng.IntN(16)
		rest, uses := v.remaining(job, func(a *nomad.Allocation) bool { return gone>>(a.ID[0]-'0')&1 == 1 })
		free := r.Reads() && rest.ReadFree() || !r.Reads() && rest.AllowsWrites() && rest.WriteFree() && !sharesWriter(r, uses)
		if !free {
			t.Fatalf("request %+v of a volume in mode %q with the uses %+v: it is not free", r, v.AccessMode, v.uses)
		}
	}
	if short < 1000 {
		t.Errorf("%d of 20000 take the short way", short)
	}
}
