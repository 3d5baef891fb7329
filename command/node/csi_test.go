package node

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestCSIPlugins(t *testing.T) {
	for want, of := range map[string]map[string]*api.CSIInfo{
		"":                              nil,
		"a,b (unhealthy),c (unhealthy)": {"b": {}, "a": {Healthy: true}, "c": nil},
	} {
		if got := plugins(of); got != want {
			t.Errorf("plugins() = %q, want %q", got, want)
		}
	}
}

func TestCSISources(t *testing.T) {
	volumes := map[string]*api.VolumeRequest{"data": {Type: "csi", Source: "db", PerAlloc: true}, "shared": {Type: "csi", Source: "shared"},
		"scratch": {Type: "host", Source: "scratch"}}
	job := &api.Job{TaskGroups: []*api.TaskGroup{{Name: new("g"), Volumes: volumes}, {Name: new("other"),
		Volumes: map[string]*api.VolumeRequest{"x": {Type: "csi", Source: "x"}}}}}
	got := csiSources([]*api.Allocation{
		{Name: "j.g[0]", TaskGroup: "g", Job: job, ClientStatus: "running", DesiredStatus: "stop"},
		{Name: "j.g[2]", TaskGroup: "g", Job: job, ClientStatus: "pending"},
		{Name: "j.g[3]", TaskGroup: "g", Job: job, ClientStatus: "complete"},
		{Name: "j.g[4]", TaskGroup: "g", ClientStatus: "running"},
	})
	if want := "db[0] db[2] shared"; strings.Join(got, " ") != want {
		t.Errorf("csiSources() = %q, want %s", got, want)
	}
}
