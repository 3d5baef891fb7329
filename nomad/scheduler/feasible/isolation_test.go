package feasible_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// TestIsolation checks which nodes have the level that a group requires, by the level of the driver's
// instance.
func TestIsolation(t *testing.T) {
	node := func(levels map[string]string) *nomad.Node {
		n := &nomad.Node{Drivers: map[string]*nomad.DriverInfo{}, Attributes: map[string]string{}}
		for _, d := range []string{"exec2", "open"} {
			n.Drivers[d] = &nomad.DriverInfo{Detected: true, Healthy: true}
		}
		for d, l := range levels {
			n.Attributes["driver."+d+".level"] = l
		}
		return n
	}
	type m = map[string]string
	enforced := &nomad.NamespaceIsolation{Minimum: "baseline", Enforce: true}
	for name, c := range map[string]struct {
		ns    *nomad.NamespaceIsolation
		tasks []*nomad.Task
		node  m
		want  string
	}{
		"no level": {nil, []*nomad.Task{{Driver: "exec2"}}, m{}, ""},
		"the same": {nil, []*nomad.Task{{Driver: "exec2", Isolation: "restricted"}}, m{"exec2": "restricted"}, ""},
		"higher":   {nil, []*nomad.Task{{Driver: "exec2", Isolation: "restricted"}}, m{"exec2": "strict"}, ""},
		"lower": {nil, []*nomad.Task{{Driver: "exec2", Isolation: "restricted"}}, m{"exec2": "baseline"},
			`driver "exec2" is below isolation level "restricted"`},
		"no attribute": {nil, []*nomad.Task{{Driver: "exec2", Isolation: "host"}}, m{}, `driver "exec2" is below isolation level "host"`},
		"unknown level": {nil, []*nomad.Task{{Driver: "exec2", Isolation: "host"}}, m{"exec2": "perfect"},
			`driver "exec2" is below isolation level "host"`},
		"another instance": {nil, []*nomad.Task{{Driver: "open", Isolation: "host"}}, m{"exec2": "strict"},
			`driver "open" is below isolation level "host"`},
		"the highest counts": {nil, []*nomad.Task{{Driver: "exec2", Isolation: "host"}, {Driver: "exec2", Isolation: "strict"}},
			m{"exec2": "host"}, `driver "exec2" is below isolation level "strict"`},
		"namespace": {enforced, []*nomad.Task{{Driver: "exec2"}}, m{"exec2": "host"},
			`driver "exec2" is below isolation level "baseline"`},
		"namespace is met":  {enforced, []*nomad.Task{{Driver: "exec2"}}, m{"exec2": "baseline"}, ""},
		"namespace may not": {&nomad.NamespaceIsolation{Minimum: "strict"}, []*nomad.Task{{Driver: "exec2"}}, m{}, ""},
		"task above the rule": {enforced, []*nomad.Task{{Driver: "exec2", Isolation: "strict"}}, m{"exec2": "baseline"},
			`driver "exec2" is below isolation level "strict"`},
		"task below the rule": {enforced, []*nomad.Task{{Driver: "exec2", Isolation: "none"}}, m{"exec2": "host"},
			`driver "exec2" is below isolation level "baseline"`},
	} {
		job := &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: c.tasks}}}
		e := feasible.NewEligibility(job, feasible.Rules{Namespace: &nomad.Namespace{Isolation: c.ns}})
		if got := e.Check("g", node(c.node)); got != c.want {
			t.Errorf("%s: Check() = %q, want %q", name, got, c.want)
		}
	}
}
