package nomad_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestCSIRequests(t *testing.T) {
	j := &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "none"}, {Name: "g", Volumes: map[string]*nomad.VolumeRequest{
		"b": {Name: "b", Type: "csi", Source: "2"}, "a": {Name: "a", Type: "csi", Source: "1"},
		"c": {Name: "c", Type: "host", Source: "3"}, "d": nil,
	}}}}
	for group, want := range map[string]string{"g": "12", "none": "", "gone": ""} {
		got := ""
		for _, r := range (&nomad.Allocation{TaskGroup: group}).CSIRequests(j) {
			got += r.Source
		}
		if got != want {
			t.Errorf("CSIRequests() of group %s = %q, want %q", group, got, want)
		}
	}
	if got := (&nomad.Allocation{TaskGroup: "g"}).CSIRequests(nil); got != nil {
		t.Errorf("CSIRequests() without a job = %v", got)
	}
}
