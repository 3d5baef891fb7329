package kinds_test

import (
	"maps"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
)

// TestPromise checks the levels that the plan applier writes on an allocation.
func TestPromise(t *testing.T) {
	table := kinds.Table(drivers.Table())
	claim := &nomad.WorkloadIdentity{Isolation: true}
	for name, c := range map[string]struct {
		ns   *nomad.NamespaceIsolation
		task nomad.Task
		node string // level of the instance
		want string // "" for no entry
	}{
		"nothing":               {nil, nomad.Task{}, "strict", ""},
		"required":              {nil, nomad.Task{Isolation: "host"}, "strict", "host"},
		"required and claimed":  {nil, nomad.Task{Isolation: "host", Identity: claim}, "strict", "host"},
		"claimed":               {nil, nomad.Task{Identity: claim}, "strict", "strict"},
		"named identity":        {nil, nomad.Task{Identities: []*nomad.WorkloadIdentity{{}, claim}}, "strict", "strict"},
		"service":               {nil, nomad.Task{Services: []*nomad.Service{{Identity: claim}}}, "strict", "strict"},
		"weaker node":           {nil, nomad.Task{Identity: claim}, "baseline", "baseline"},
		"node without levels":   {nil, nomad.Task{Identity: claim}, "", ""},
		"weaker task":           {nil, nomad.Task{Identity: claim, User: "nobody"}, "strict", "restricted"},
		"claimed by namespace":  {&nomad.NamespaceIsolation{Claim: true}, nomad.Task{}, "restricted", "restricted"},
		"minimum":               {&nomad.NamespaceIsolation{Minimum: "baseline", Enforce: true}, nomad.Task{}, "strict", "baseline"},
		"minimum, not enforced": {&nomad.NamespaceIsolation{Minimum: "baseline"}, nomad.Task{}, "strict", ""},
		"minimum and claim":     {&nomad.NamespaceIsolation{Minimum: "baseline", Enforce: true, Claim: true}, nomad.Task{}, "strict", "strict"},
		// The client refuses it: the claim is not below the rule.
		"below the minimum": {&nomad.NamespaceIsolation{Minimum: "strict", Enforce: true, Claim: true}, nomad.Task{User: "nobody"}, "strict",
			"strict"},
		"another driver": {nil, nomad.Task{Driver: "podman", Identity: claim}, "strict", ""},
		"raw_exec lies":  {nil, nomad.Task{Driver: "raw_exec", Identity: claim}, "strict", ""},
	} {
		task := c.task
		task.Name = "t"
		if task.Driver == "" {
			task.Driver = "exec2"
		}
		n := node(map[string]string{"exec2": "exec2", "podman": "podman", "raw_exec": "raw_exec"})
		for d := range n.Drivers {
			n.Attributes["driver."+d+".level"] = c.node
		}
		var want map[string]string
		if c.want != "" {
			want = map[string]string{"t": c.want}
		}
		got := table.Promise(&nomad.Namespace{Isolation: c.ns}, n, &nomad.TaskGroup{Tasks: []*nomad.Task{&task}})
		if !maps.Equal(got, want) {
			t.Errorf("%s: Promise() = %v, want %v", name, got, want)
		}
	}
	if got := table.Promise(nil, nil, &nomad.TaskGroup{Tasks: []*nomad.Task{{Name: "t", Driver: "exec2", Identity: claim}}}); got != nil {
		t.Errorf("Promise() without namespace and node = %v, want nothing", got)
	}
}
