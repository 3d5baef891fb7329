package admission

import (
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Bidirectional propagation, and a mode that may resolve to it, needs mount-readwrite even on a volume that
// is only read.
func TestPropagationRights(t *testing.T) {
	for policy, allowed := range map[string]map[string]bool{
		"read":  {"": true, "private": true, "host-to-task": true, "bidirectional": false, "${meta.p}": false},
		"write": {"": true, "private": true, "host-to-task": true, "bidirectional": true, "${meta.p}": true},
	} {
		parsed, err := acl.Parse(`host_volume "data" { policy = "` + policy + `" }`)
		if err != nil {
			t.Fatal(err)
		}
		for mode, want := range allowed {
			for _, volume := range []string{"v", "${meta.v}"} {
				job := &nomad.Job{Namespace: "default", TaskGroups: []*nomad.TaskGroup{{Name: "g",
					Volumes: map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeHost, Source: "data", ReadOnly: true}},
					Tasks:   []*nomad.Task{{Name: "t", VolumeMounts: []*nomad.VolumeMount{{Volume: volume, PropagationMode: mode}}}}}}}
				caller := Caller(&rpc.Access{Rights: acl.New(false, parsed)})
				if err := New(Config{}).Rights(caller, job); (err == nil) != want {
					t.Errorf("%s, %s of %s: %v, want allowed %v", policy, mode, volume, err, want)
				}
			}
		}
	}
}
