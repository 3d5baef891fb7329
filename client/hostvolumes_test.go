package client

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// While a dynamic volume is deleted, its name has no volume for tasks, also if a static one has the name.
func TestHostVolumes_Usable(t *testing.T) {
	type volumes = map[string]*nomad.ClientHostVolumeConfig
	dynamic := &nomad.ClientHostVolumeConfig{Name: "data", ID: "v1"}
	static := &nomad.ClientHostVolumeConfig{Name: "data"}
	for name, c := range map[string]struct {
		all, usable volumes
		want        *nomad.ClientHostVolumeConfig
	}{
		"static":        {volumes{"data": static}, nil, static},
		"dynamic":       {volumes{"data": dynamic}, volumes{"data": dynamic}, dynamic},
		"being deleted": {volumes{"data": dynamic}, nil, nil},
	} {
		if got := withoutClosed(c.all, c.usable)["data"]; got != c.want {
			t.Errorf("%s: tasks mount %v", name, got)
		}
	}
}
