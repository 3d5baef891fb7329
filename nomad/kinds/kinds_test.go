package kinds_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	plugin "github.com/open-nomad/open-nomad/plugins/drivers"
)

// node returns a node with detected drivers and their kinds.
func node(backends map[string]string) *nomad.Node {
	n := &nomad.Node{Drivers: map[string]*nomad.DriverInfo{}, Attributes: map[string]string{}}
	for name, kind := range backends {
		n.Drivers[name] = &nomad.DriverInfo{Detected: true}
		n.Attributes["driver."+name+".backend"] = kind
	}
	return n
}

func TestNames(t *testing.T) {
	nodes := []*nomad.Node{
		node(map[string]string{"exec2": "exec2", "open": "exec2", "mixed": "exec2", "foreign": "exec2", "raw_exec": "exec2", "lone": "raw_exec"}),
		node(map[string]string{"exec2": "exec2", "open": "exec2", "mixed": "raw_exec", "foreign": "docker"}),
		{Drivers: map[string]*nomad.DriverInfo{"open": {}, "off": {}, "none": nil}, Attributes: map[string]string{"driver.off.backend": "exec2"}},
	}
	names := kinds.Table(drivers.Table()).Names(slices.Values(nodes))
	for name, want := range map[string]struct {
		kind   string
		absent bool
	}{
		"exec2": {"exec2", false}, "mock_driver": {"mock_driver", false}, "open": {"exec2", false}, "lone": {"raw_exec", false},
		"raw_exec": {"raw_exec", false}, // whatever a node says
		"mixed":    {"", false}, "foreign": {"", false}, "off": {"", true}, "none": {"", true}, "exec9": {"", true},
	} {
		got := ""
		if k := names.Kind(name); k != nil {
			got = k.Name
		}
		if got != want.kind || names.Absent(name) != want.absent {
			t.Errorf("%s: kind %q, absent %t, want %+v", name, got, names.Absent(name), want)
		}
	}
}

// TestNamesReadNodesOnce checks that the nodes are read only for a name that is not built-in, and only
// once.
func TestNamesReadNodesOnce(t *testing.T) {
	reads := 0
	names := kinds.Table(drivers.Table()).Names(func(func(*nomad.Node) bool) { reads++ })
	names.Kind("exec2")
	if reads != 0 {
		t.Errorf("the nodes were read for a built-in kind")
	}
	for range 3 {
		names.Kind("a")
		names.Absent("b")
	}
	if reads != 1 {
		t.Errorf("the nodes were read %d times, want once", reads)
	}
}

// TestExposed checks on which nodes the tasks of a driver are not isolated, as far as servers know.
func TestExposed(t *testing.T) {
	table := kinds.Table(drivers.Table())
	n := node(map[string]string{"open": "raw_exec", "closed": "exec2", "exec2": "raw_exec", "docker": "docker"})
	for name, want := range map[string]bool{"raw_exec": true, "mock_driver": true, "open": true, "closed": false, "exec2": false,
		"docker": false, "exec9": false} {
		if got := kinds.Exposed(table.On(n, name)); got != want {
			t.Errorf("%s: exposed %t, want %t", name, got, want)
		}
	}
	if kinds.Exposed(table.On(nil, "open")) || !kinds.Exposed(table.On(nil, "raw_exec")) {
		t.Error("without the node, only built-in names are known")
	}
}

// TestSchemaAttribute checks that package nomad reads the attribute that clients write.
func TestSchemaAttribute(t *testing.T) {
	n := node(map[string]string{"open": "exec2"})
	n.Attributes[plugin.Attribute("open", plugin.SchemaKey)] = "d"
	if got := n.SchemaDigest("open"); got != "d" || !n.NamesSchema("d") || n.NamesSchema("e") {
		t.Errorf("SchemaDigest() = %q, want d", got)
	}
}
