package feasible_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// privilegeTable has a kind whose tasks always need privilege, one whose config decides, and one
// without privilege.
var privilegeTable = kinds.Table{
	"open": {Name: "open", NeedsPrivilege: func(map[string]any) string { return "it isolates nothing" }},
	"box": {Name: "box", NeedsPrivilege: func(config map[string]any) string {
		if config["power"] == true {
			return "power = true"
		}
		return ""
	}},
	"shut": {Name: "shut"},
}

// privilegeNode returns a node with a healthy driver, and further attributes of it.
func privilegeNode(driver, backend string, attributes ...string) *nomad.Node {
	n := &nomad.Node{ID: "n", ComputedClass: "v1:1", Drivers: map[string]*nomad.DriverInfo{driver: {Detected: true, Healthy: true}},
		Attributes: map[string]string{"driver." + driver + ".backend": backend}}
	for _, key := range attributes {
		n.Attributes["driver."+driver+"."+key] = "true"
	}
	return n
}

// TestPrivilege checks where tasks with and without privilege are placed, and the reasons.
func TestPrivilege(t *testing.T) {
	missing := func(driver string) string { return fmt.Sprintf("missing privilege of driver %q", driver) }
	needs := func(driver string) string {
		return fmt.Sprintf(`task "t" needs privileged = true for driver %q`, driver)
	}
	power := map[string]any{"power": true}
	for name, tc := range map[string]struct {
		node       *nomad.Node
		privileged bool
		config     map[string]any
		want       string
	}{
		"always needed":           {privilegeNode("open", "open", drivers.PrivilegedKey), false, nil, needs("open")},
		"always needed, legacy":   {privilegeNode("open", "open", drivers.LegacyKey), false, nil, ""},
		"always needed, given":    {privilegeNode("open", "open"), true, nil, ""},
		"always needed, old node": {privilegeNode("open", ""), false, nil, ""},
		"given on an old node":    {privilegeNode("open", ""), true, nil, ""},
		"instance":                {privilegeNode("raw-2", "open"), false, nil, needs("raw-2")},
		"instance, given":         {privilegeNode("raw-2", "open"), true, nil, ""},
		"not needed":              {privilegeNode("box", "box"), false, nil, ""},
		"needed by the config":    {privilegeNode("box", "box", drivers.PrivilegedKey), false, power, needs("box")},
		"needed, legacy":          {privilegeNode("box", "box", drivers.LegacyKey), false, power, ""},
		"given, not offered":      {privilegeNode("box", "box"), true, power, missing("box")},
		"given, legacy alone":     {privilegeNode("box", "box", drivers.LegacyKey), true, power, ""},
		"given, old node":         {privilegeNode("box", ""), true, power, ""},
		"given and offered":       {privilegeNode("box", "box", drivers.PrivilegedKey), true, power, ""},
		"kind without privilege":  {privilegeNode("shut", "shut"), true, nil, missing("shut")},
		"not built-in":            {privilegeNode("podman", "podman"), false, power, ""},
		"not built-in, given":     {privilegeNode("podman", "podman"), true, nil, missing("podman")},
	} {
		var driver string
		for driver = range tc.node.Drivers {
		}
		task := &nomad.Task{Name: "t", Driver: driver, Privileged: tc.privileged, Config: tc.config}
		job := &nomad.Job{ID: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{task}}}}
		if got := feasible.NewEligibility(job, feasible.Rules{Kinds: privilegeTable}).Check("g", tc.node); got != tc.want {
			t.Errorf("%s: Check() = %q, want %q", name, got, tc.want)
		}
	}
}

// TestPrivilege_EachTask checks that two tasks of a driver are judged apart, and that a scheduler
// without kinds knows no needs.
func TestPrivilege_EachTask(t *testing.T) {
	tasks := []*nomad.Task{{Name: "a", Driver: "open", Privileged: true}, {Name: "b", Driver: "open"}}
	job := &nomad.Job{ID: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: tasks}}}
	if got, want := feasible.NewEligibility(job, feasible.Rules{Kinds: privilegeTable}).Check("g",
		privilegeNode("open", "open")), `task "b" needs privileged = true for driver "open"`; got != want {
		t.Errorf("Check() = %q, want %q", got, want)
	}
	tasks[0].Privileged = false
	if got := feasible.NewEligibility(job, feasible.Rules{}).Check("g", privilegeNode("open", "open")); got != "" {
		t.Errorf("Check() without kinds = %q, want none", got)
	}
}
