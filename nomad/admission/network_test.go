package admission

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// A region with servers of another build does not accept isolated networks.
func TestIsolationNeedsOurServers(t *testing.T) {
	refused := errors.New("a server is of another build")
	asked := ""
	a := New(Config{OnlyOurs: func(feature string) error { asked = feature; return refused }})
	for name, c := range map[string]struct {
		network nomad.NetworkResource
		want    error
	}{
		"plain":    {nomad.NetworkResource{Mode: "bridge"}, nil},
		"isolated": {nomad.NetworkResource{Mode: "bridge", Isolate: true}, refused},
		"egress":   {nomad.NetworkResource{Mode: "bridge", Egress: &nomad.NetworkEgress{}}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			asked = ""
			job := &nomad.Job{ID: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g", Networks: nomad.Networks{&c.network}}}}
			if err := a.isolates(job); !errors.Is(err, c.want) || (c.want != nil) != strings.Contains(asked, `group "g"`) {
				t.Errorf("isolates() = %v after asking for %q, want %v", err, asked, c.want)
			}
		})
	}
}
