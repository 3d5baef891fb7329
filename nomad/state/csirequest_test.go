package state_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// users lists the allocations that request a CSI volume.
func (w *world) users(namespace, volume string) string {
	var out []string
	for a := range w.snap().CSIVolumeUsers(nil, namespace, volume) {
		out = append(out, a.ID)
	}
	return strings.Join(out, " ")
}

// An allocation uses its CSI volumes from its placement until its client has ended it, even if the servers stop it.
func TestCSIVolumeUsers(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	j := w.job("web", func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{
			"each": {Name: "each", Type: "csi", Source: "disk", PerAlloc: true}, "one": {Name: "one", Type: "csi", Source: "data"},
			"same": {Name: "same", Type: "csi", Source: "data", ReadOnly: true}, "host": {Name: "host", Type: "host", Source: "etc"},
			"none": nil,
		}
	})
	for i, id := range []string{"a0", "a1"} {
		w.place(j, func(a *nomad.Allocation) { a.Name = nomad.AllocName("web", "g", uint(i)) }, id)
	}
	check := func(when string, w *world, want map[string]string) {
		t.Helper()
		for volume, users := range want {
			if got := w.users("default", volume); got != users {
				t.Errorf("%s: users of %s = %q, want %q", when, volume, got, users)
			}
		}
	}
	all := map[string]string{"data": "a0 a1", "disk[0]": "a0", "disk[1]": "a1", "disk": "", "etc": "", "dat": ""}
	check("placed", w, all)
	check("restored", w.restored(), all)
	if got := w.users("other", "data"); got != "" {
		t.Errorf("users of the volume of another namespace = %q", got)
	}
	w.place(j, func(a *nomad.Allocation) { a.Name, a.DesiredStatus = "web.g[0]", nomad.AllocDesiredStatusStop }, "a0")
	check("stopping", w, all)
	w.report("a0", nomad.AllocClientStatusComplete)
	check("ended", w, map[string]string{"data": "a1", "disk[0]": "", "disk[1]": "a1"})
}
