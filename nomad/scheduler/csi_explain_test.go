package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// TestCSI_Explain checks that an explanation names each reason, and what the claim of another allocation waits for.
func TestCSI_Explain(t *testing.T) {
	writer := csi.Claim{Mode: csi.ClaimWrite, AccessMode: nomad.VolumeSingleNodeWriter,
		Since: time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC).UnixNano()}
	held := func(edit ...func(w *world, c *csi.Claim)) func(w *world, v *csi.Volume) {
		return func(w *world, v *csi.Volume) {
			w.held(v, "a9", writer)
			w.allocs["a9"].NodeName = "node9"
			for _, f := range edit {
				f(w, v.WriteClaims["a9"])
			}
		}
	}
	const claimed = `volumes false CSI volume "data" for writing: CSI volume data is claimed by allocation a9 of job other on node node9 ` +
		`since 2026-05-01T10:00:00Z: it waits for `
	for name, c := range map[string]struct {
		node   func(*nomad.Node)
		volume func(w *world, v *csi.Volume)
		want   []string
		fits   bool
	}{
		"free": {want: []string{`volumes true CSI plugin "p" of volume "data": healthy`, `volumes true CSI volume "data" for writing: free`}, fits: true},
		"missing": {volume: func(w *world, _ *csi.Volume) { delete(w.csi, "data") },
			want: []string{`volumes false CSI volume "data": namespace "default" has no such volume: register or create it`}},
		"no plugin": {node: func(*nomad.Node) {},
			want: []string{`volumes false CSI plugin "p" of volume "data": the node runs no instance of it: a job with its csi_plugin block must run there`}},
		"unhealthy": {node: runs(func(i *nomad.CSIInfo) { i.Healthy, i.HealthDescription = false, "no\x1bstorage" }),
			want: []string{`volumes false CSI plugin "p" of volume "data": unhealthy: no storage`}},
		"limit": {node: runs(limit(1)), volume: func(w *world, _ *csi.Volume) {
			w.held(w.addCSI("more"), "a9", writer)
			w.csi["more"].WriteClaims["a9"].NodeID = "n1"
		}, want: []string{`volumes false room for a volume of CSI plugin "p": 1 of 1 used`}},
		"topology": {node: runs(zone("a")), volume: func(_ *world, v *csi.Volume) {
			v.Topologies = []*nomad.CSITopology{nil, {Segments: map[string]string{"zone": "b"}}, {Segments: map[string]string{"zone": "c", "rack": "1"}}}
		}, want: []string{`volumes false topology of CSI volume "data": zone=b or rack=1,zone=c: zone=a`}},
		"unschedulable": {volume: func(_ *world, v *csi.Volume) { v.Schedulable, v.ControllerRequired = false, true },
			want: []string{`volumes false CSI volume "data" for writing: plugin "p" has 1 healthy instances on nodes and 0 healthy controllers: it needs one of each`}},
		"read-only": {volume: func(_ *world, v *csi.Volume) { v.RequestedCapabilities = v.RequestedCapabilities[1:] },
			want: []string{`volumes false CSI volume "data" for writing: none of its capabilities allows it: register the volume with another access_mode`}},
		"claimed": {volume: held(), want: []string{claimed + "the end of this allocation\n"}},
		"stopping": {volume: held(func(w *world, _ *csi.Claim) { w.allocs["a9"].DesiredStatus = nomad.AllocDesiredStatusStop }),
			want: []string{claimed + "the end of this allocation, which stops\n"}},
		"ended": {volume: held(func(w *world, _ *csi.Claim) { w.allocs["a9"].ClientStatus = nomad.AllocClientStatusComplete }),
			want: []string{claimed + "its release\n"}},
		"being released": {volume: held(func(w *world, c *csi.Claim) {
			past := *c
			past.State = csi.ClaimNodeDetached
			w.csi["data"].PastClaims = map[string]*csi.Claim{"a9": &past}
		}), want: []string{claimed + "the next step of its release (it is node-detached)\n"}},
		"stuck": {volume: held(func(_ *world, c *csi.Claim) { c.State, c.Waits = csi.ClaimUnpublishing, "the node plugin of node9" }),
			want: []string{claimed + "the node plugin of node9\n"}},
		"collected": {volume: held(func(w *world, _ *csi.Claim) { delete(w.allocs, "a9"); delete(w.byNode["n9"], "a9") }),
			want: []string{"is claimed by allocation a9, which was garbage collected, on node n9 since 2026-05-01T10:00:00Z: it waits for its release\n"}},
		"not claimed yet": {volume: func(w *world, _ *csi.Volume) {
			other := job(nomad.JobTypeService, 1, mounts("data"), func(j *nomad.Job) { j.ID = "other" })
			w.set(&nomad.Allocation{ID: "a9", Name: "other.g[0]", Namespace: "default", JobID: "other", NodeID: "n9", TaskGroup: "g",
				DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusPending, CreateIndex: 1, Job: other})
		}, want: []string{"CSI volume data is requested by allocation a9 of job other on node n9, which has not claimed it yet\n"}},
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
			w.register(job(nomad.JobTypeService, 1, mounts("data")))
			got, fits := w.explain("n1")
			if fits != c.fits {
				t.Errorf("fits = %t, want %t", fits, c.fits)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("the checks lack %q:\n%s", want, got)
				}
			}
		})
	}
}
