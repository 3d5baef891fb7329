package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// usesData returns an allocation that requests the host volume "data".
func usesData(desired string) *nomad.Allocation {
	return &nomad.Allocation{ID: "a", TaskGroup: "g", DesiredStatus: desired, Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{
		Name: "g", Volumes: map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}}}}}
}

// An allocation uses its volumes until its tasks have ended, whatever the servers want.
func TestVolumeUsers(t *testing.T) {
	status := func(s string) *nomad.Allocation { return &nomad.Allocation{ID: "a", ClientStatus: s} }
	for name, c := range map[string]struct {
		h      held
		volume string
		uses   bool
	}{
		"not started":        {held{alloc: usesData("run")}, "data", true},
		"running":            {held{alloc: usesData("run"), status: status("running")}, "data", true},
		"another volume":     {held{alloc: usesData("run"), status: status("running")}, "logs", false},
		"stops":              {held{alloc: usesData("stop"), status: status("running")}, "data", true},
		"its tasks ended":    {held{alloc: usesData("run"), status: status("complete")}, "data", false},
		"failed":             {held{alloc: usesData("run"), status: status("failed")}, "data", false},
		"ended before start": {held{alloc: usesData("stop"), endedAt: time.Unix(1, 0)}, "data", false},
	} {
		s := &allocSet{held: map[string]*held{"a": &c.h}, loaded: make(chan struct{})}
		client := &Client{allocs: s}
		done, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the caller left"))
		if _, err := client.volumeUsers(done, c.volume); err == nil {
			t.Errorf("%s: users are known before the allocations are restored", name)
		}
		close(s.loaded)
		ids, err := client.volumeUsers(t.Context(), c.volume)
		if got := slices.Equal(ids, []string{"a"}); err != nil || got != c.uses {
			t.Errorf("%s: users are %v, %v; want one: %t", name, ids, err, c.uses)
		}
	}
}

// While a dynamic volume is deleted, its name has no volume for tasks, also if a static one has the name.
func TestUsableVolumes(t *testing.T) {
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
