package kinds_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
)

// TestPrivilege checks which nodes offer privilege, and on which it is needed, by what they report.
func TestPrivilege(t *testing.T) {
	table := kinds.Table(drivers.Table())
	for name, tc := range map[string]struct {
		driver, backend       string
		attributes            map[string]string
		needs, offers, legacy bool
	}{
		"raw_exec":                  {"raw_exec", "raw_exec", nil, true, true, false},
		"raw_exec with the option":  {"raw_exec", "raw_exec", map[string]string{"privileged.legacy": "true"}, true, true, true},
		"raw_exec of another build": {"raw_exec", "", nil, true, true, true},
		"instance":                  {"open", "raw_exec", nil, true, true, false},
		"instance with the option":  {"open", "raw_exec", map[string]string{"privileged.legacy": "1"}, true, true, true},
		"mock without privilege":    {"mock_driver", "mock_driver", nil, true, false, false},
		"mock with privilege":       {"mock_driver", "mock_driver", map[string]string{"privileged.enabled": "true"}, true, true, false},
		"mock with the option":      {"mock_driver", "mock_driver", map[string]string{"privileged.legacy": "true"}, true, true, true},
		"mock of another build":     {"mock_driver", "", nil, true, true, true},
		"exec2 with the option":     {"exec2", "exec2", map[string]string{"privileged.legacy": "true"}, false, false, true},
		"mock, not a boolean": {"mock_driver", "mock_driver",
			map[string]string{"privileged.enabled": "yes", "privileged.legacy": "on"}, true, false, false},
		"exec2":                          {"exec2", "exec2", nil, false, false, false},
		"not built-in":                   {"box", "box", nil, false, false, false},
		"not built-in, of another build": {"box", "", map[string]string{"privileged.enabled": "true"}, false, true, true},
	} {
		n := node(map[string]string{tc.driver: tc.backend})
		for key, value := range tc.attributes {
			n.Attributes["driver."+tc.driver+"."+key] = value
		}
		task := &nomad.Task{Driver: tc.driver, Config: map[string]any{"needs_privilege": "a reason"}}
		if got := table.Needs(n, task) != ""; got != tc.needs {
			t.Errorf("%s: needs privilege %t, want %t", name, got, tc.needs)
		}
		if got := table.Offers(n, tc.driver); got != tc.offers {
			t.Errorf("%s: offers privilege %t, want %t", name, got, tc.offers)
		}
		if got := table.Legacy(n, tc.driver); got != tc.legacy {
			t.Errorf("%s: legacy %t, want %t", name, got, tc.legacy)
		}
		if got := table.Names(slices.Values([]*nomad.Node{node(map[string]string{tc.driver: "raw_exec"}),
			n})).Legacy(tc.driver); got != tc.legacy {
			t.Errorf("%s: legacy with two nodes %t, want %t", name, got, tc.legacy)
		}
	}
	n := node(map[string]string{"raw_exec": "raw_exec"})
	n.Attributes["driver.raw_exec.privileged.legacy"] = "true"
	n.Drivers["raw_exec"].Detected = false
	if table.Names(slices.Values([]*nomad.Node{n})).Legacy("raw_exec") || table.Names(nil).Legacy("raw_exec") {
		t.Error("legacy without a node that has the driver")
	}
}

// TestNeeds checks which tasks need privilege as far as servers know: references are left to nodes.
func TestNeeds(t *testing.T) {
	names := kinds.Table(drivers.Table()).Names(slices.Values([]*nomad.Node{node(map[string]string{"open": "mock_driver"})}))
	for name, tc := range map[string]struct {
		driver string
		value  any
		want   bool
	}{
		"given": {"mock_driver", "a reason", true}, "of an instance": {"open", "a reason", true}, "not given": {"mock_driver", nil, false},
		"reference": {"mock_driver", "${meta.reason}", false}, "unknown driver": {"box", "a reason", false},
		"exec2":    {"exec2", "a reason", false},
		"raw_exec": {"raw_exec", nil, true},
	} {
		if got := names.Needs(&nomad.Task{Driver: tc.driver, Config: map[string]any{"needs_privilege": tc.value}}); (got != "") != tc.want {
			t.Errorf("%s: needs %q, want a reason: %t", name, got, tc.want)
		}
	}
}
