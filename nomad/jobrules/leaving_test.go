package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// A task cannot leave the network of a group that is separated from others.
func TestLeavingNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		network *nomad.NetworkResource
		mode    string
		refused bool
	}{
		"isolate":   {&nomad.NetworkResource{Mode: "bridge", Isolate: true}, "host", true},
		"egress":    {&nomad.NetworkResource{Mode: "bridge", Egress: &nomad.NetworkEgress{}}, "bridge", true},
		"default":   {&nomad.NetworkResource{Mode: "bridge", Isolate: true}, "default", true},
		"reference": {&nomad.NetworkResource{Mode: "bridge", Isolate: true}, "${meta.x}", true},
		"none":      {&nomad.NetworkResource{Mode: "bridge", Isolate: true}, "none", false},
		"not given": {&nomad.NetworkResource{Mode: "bridge", Isolate: true}, "", false},
		"plain":     {&nomad.NetworkResource{Mode: "bridge"}, "host", false},
	} {
		t.Run(name, func(t *testing.T) {
			job := &nomad.Job{ID: "j", Name: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g", Networks: nomad.Networks{c.network},
				Tasks: []*nomad.Task{{Name: "t", Driver: "docker", Config: map[string]any{"network_mode": c.mode}}}}}}
			jobrules.Canonicalize(job)
			err := jobrules.Validate(job)
			if got := err != nil && strings.Contains(err.Error(), "isolate and egress of the group would not apply"); got != c.refused {
				t.Errorf("Validate() = %v, want the refusal: %t", err, c.refused)
			}
		})
	}
}
