package admission

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
)

// TestPrivilegeOfTasks checks which tasks servers refuse, by driver, config and nodes, and that the
// error says what to do.
func TestPrivilegeOfTasks(t *testing.T) {
	const place = `job "j", group "g", task "t": `
	node := func(driver, backend string, legacy bool) *nomad.Node {
		n := &nomad.Node{Drivers: map[string]*nomad.DriverInfo{driver: {Detected: true}},
			Attributes: map[string]string{"driver." + driver + ".backend": backend}}
		if legacy {
			n.Attributes["driver."+driver+".privileged.legacy"] = "true"
		}
		return n
	}
	raw := func(t *nomad.Task) { t.Driver = "raw_exec" }
	mock := func(driver, why string) func(*nomad.Task) {
		return func(t *nomad.Task) { t.Driver, t.Config = driver, map[string]any{"needs_privilege": why} }
	}
	privileged := func(change func(*nomad.Task)) func(*nomad.Task) {
		return func(t *nomad.Task) { change(t); t.Privileged = true }
	}
	needs := func(driver string) string {
		return place + `driver "` + driver + `" needs privilege: `
	}
	mend := `: add privileged = true to the task, which needs the ACL capability privileged-execution in namespace "team", or set legacy_privileged_behavior = true in the plugin config of "raw_exec" on its nodes`
	for name, tc := range map[string]struct {
		nodes  []*nomad.Node
		change func(*nomad.Task)
		want   []string // nothing: the job is fine
	}{
		"no node":               {nil, raw, []string{needs("raw_exec") + "raw_exec runs programs with the rights of the agent", mend}},
		"no node, given":        {nil, privileged(raw), nil},
		"node":                  {[]*nomad.Node{node("raw_exec", "raw_exec", false)}, raw, []string{mend}},
		"one node of two":       {[]*nomad.Node{node("raw_exec", "raw_exec", false), node("raw_exec", "raw_exec", true)}, raw, nil},
		"node of another build": {[]*nomad.Node{node("raw_exec", "", false)}, raw, nil},
		"legacy of another driver": {[]*nomad.Node{node("raw_exec", "raw_exec", false), node("raw-2", "raw_exec", true)}, raw,
			[]string{mend}},
		"instance": {[]*nomad.Node{node("raw-2", "raw_exec", false)}, func(t *nomad.Task) { t.Driver = "raw-2" },
			[]string{needs("raw-2")}},
		"instance, legacy":    {[]*nomad.Node{node("raw-2", "raw_exec", true)}, func(t *nomad.Task) { t.Driver = "raw-2" }, nil},
		"instance on no node": {nil, func(t *nomad.Task) { t.Driver = "raw-2" }, nil}, // the scheduler decides
		"instances of different kinds": {[]*nomad.Node{node("x", "raw_exec", false), node("x", "exec2", false)},
			func(t *nomad.Task) { t.Driver = "x" }, nil},
		"config":                    {nil, mock("mock_driver", "a reason"), []string{needs("mock_driver") + "a reason: add"}},
		"config, given":             {nil, privileged(mock("mock_driver", "a reason")), nil},
		"config with a reference":   {nil, mock("mock_driver", "${meta.reason}"), nil},
		"config that needs nothing": {nil, mock("mock_driver", ""), nil},
		"given, though not needed":  {nil, privileged(mock("mock_driver", "")), nil},
		"exec2":                     {nil, func(*nomad.Task) {}, nil},
		"exec2, given": {nil, privileged(func(*nomad.Task) {}),
			[]string{place + `driver "exec2" does not offer privilege: remove privileged = true`}},
		"instance of exec2, given": {[]*nomad.Node{testjobs.Node()}, privileged(func(t *nomad.Task) { t.Driver = "exec2-open" }),
			[]string{`driver "exec2-open" does not offer`}},
		"not built-in": {[]*nomad.Node{testjobs.Node()}, func(t *nomad.Task) { t.Driver = "docker" }, nil},
		"not built-in, given": {[]*nomad.Node{testjobs.Node()}, privileged(func(t *nomad.Task) { t.Driver = "docker" }),
			nil}, // no node offers it
	} {
		t.Run(name, func(t *testing.T) {
			job := testjobs.Exec2(tc.change)
			job.Namespace = "team"
			names := table.Names(slices.Values(tc.nodes))
			var got []string
			for _, err := range append(unoffered(job, names), unprivileged(job, names, "")...) {
				got = append(got, err.Error())
			}
			if len(got) > 1 || (len(got) == 0) != (tc.want == nil) {
				t.Fatalf("errors %q, want %q", got, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(got[0], want) {
					t.Errorf("error %q, want %q", got[0], want)
				}
			}
		})
	}
}

// TestPrivilegeWithoutServers checks what is known without nodes: an error of a driver that never
// offers privilege, and a warning about a task that needs it.
func TestPrivilegeWithoutServers(t *testing.T) {
	job := testjobs.Exec2(func(t *nomad.Task) { t.Driver = "raw_exec" })
	if errs, _ := Check(job, table); len(errs) > 0 {
		t.Errorf("Check() = %q, want no error: a node may have the legacy behaviour", errs)
	}
	if got := Unprivileged(job, table); len(got) != 1 || !strings.Contains(got[0], "add privileged = true") {
		t.Errorf("Unprivileged() = %q, want one text", got)
	}
	errs, _ := Check(testjobs.Exec2(func(t *nomad.Task) { t.Privileged = true }), table)
	if len(errs) != 1 || !strings.Contains(errs[0], "does not offer privilege") {
		t.Errorf("Check() = %q, want one error", errs)
	}
}
