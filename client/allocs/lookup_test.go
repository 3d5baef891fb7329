package allocs

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
		entry  Entry
		volume string
		uses   bool
	}{
		"not started":        {Entry{alloc: usesData("run")}, "data", true},
		"running":            {Entry{alloc: usesData("run"), status: status("running")}, "data", true},
		"another volume":     {Entry{alloc: usesData("run"), status: status("running")}, "logs", false},
		"stops":              {Entry{alloc: usesData("stop"), status: status("running")}, "data", true},
		"its tasks ended":    {Entry{alloc: usesData("run"), status: status("complete")}, "data", false},
		"failed":             {Entry{alloc: usesData("run"), status: status("failed")}, "data", false},
		"ended before start": {Entry{alloc: usesData("stop"), endedAt: time.Unix(1, 0)}, "data", false},
	} {
		s := &Set{entries: map[string]*Entry{"a": &c.entry}, loaded: make(chan struct{})}
		done, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the caller left"))
		if _, err := s.VolumeUsers(done, c.volume); err == nil {
			t.Errorf("%s: users are returned before the allocations are restored", name)
		}
		close(s.loaded)
		ids, err := s.VolumeUsers(t.Context(), c.volume)
		if got := slices.Equal(ids, []string{"a"}); err != nil || got != c.uses {
			t.Errorf("%s: users are %v, %v; want one: %t", name, ids, err, c.uses)
		}
	}
}
