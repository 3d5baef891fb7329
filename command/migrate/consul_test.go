package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// TestServed checks that each feature that needs Consul is either kept, or lost with its own name.
func TestServed(t *testing.T) {
	want := []string{"consul cluster", "consul partition"} // of Nomad Enterprise
	lost := slices.DeleteFunc(jobrules.ConsulFeatures(), func(name string) bool { return slices.Contains(served, name) })
	if !slices.Equal(lost, want) {
		t.Errorf("lost features of Consul: %q, want %q", lost, want)
	}
	for _, name := range served {
		if !slices.Contains(jobrules.ConsulFeatures(), name) {
			t.Errorf("%q is no feature that needs Consul", name)
		}
	}
}

// TestConsulJob checks what a job uses, and what it needs to keep Consul and to leave it.
func TestConsulJob(t *testing.T) {
	consul := func(name string) *nomad.Service {
		return &nomad.Service{Name: name, Provider: "consul", PortLabel: "80"}
	}
	signed := func(name, alg string) *nomad.WorkloadIdentity {
		return &nomad.WorkloadIdentity{Name: name, Audience: []string{"consul.io"}, Alg: alg}
	}
	for name, c := range map[string]struct {
		group             nomad.TaskGroup
		uses, keep, leave []string // beginnings of the lines
	}{
		"nothing": {nomad.TaskGroup{Services: []*nomad.Service{{Name: "web", Provider: "nomad"}}}, nil, nil, nil},
		"implicit constraint": {nomad.TaskGroup{Constraints: []*nomad.Constraint{{LTarget: "${attr.consul.version}", RTarget: ">= 1.8.0"}}},
			nil, nil, nil},
		"services": {nomad.TaskGroup{Services: []*nomad.Service{consul("b"), consul("a")}}, []string{"services a, b"},
			[]string{"services without an identity"}, nil},
		"without a provider": {nomad.TaskGroup{Services: []*nomad.Service{{Name: "old"}}}, []string{"services old"},
			[]string{"services without an identity"}, nil},
		"identity": {nomad.TaskGroup{Services: []*nomad.Service{{Name: "a", Provider: "consul", Identity: signed("", "RS256")}}},
			[]string{"services a"}, []string{"its identities log in"}, nil},
		"identity of a task": {nomad.TaskGroup{Tasks: []*nomad.Task{{Name: "t", Identities: []*nomad.WorkloadIdentity{signed("consul_default", "")}}}},
			[]string{"tokens for tasks t"}, []string{"its identities log in", "after the next rotation"}, nil},
		"other identity": {nomad.TaskGroup{Tasks: []*nomad.Task{{Name: "t", Identities: []*nomad.WorkloadIdentity{signed("aws", "")}}}}, nil, nil, nil},
		"block":          {nomad.TaskGroup{Consul: &nomad.Consul{}, Tasks: []*nomad.Task{{Name: "t"}}}, []string{"tokens for tasks t"}, nil, nil},
		"constraint": {nomad.TaskGroup{Constraints: []*nomad.Constraint{{LTarget: "${attr.consul.sku}", RTarget: "oss"}}},
			[]string{"constraints ${attr.consul.sku}"}, nil, []string{"remove the constraint"}},
	} {
		c.group.Name, c.group.Count = "g", 1
		j := &nomad.Job{ID: "j", Name: "j", Namespace: "default", Type: "service", TaskGroups: []*nomad.TaskGroup{&c.group}}
		got, used := consulJob(j)
		if used != (c.uses != nil) {
			t.Errorf("%s: consulJob() = %+v, %t", name, got, used)
		}
		for what, lines := range map[string][2][]string{"uses": {got.Uses, c.uses}, "keep": {got.Keep, c.keep}, "leave": {got.Native, c.leave}} {
			if !slices.EqualFunc(lines[0], lines[1], strings.HasPrefix) {
				t.Errorf("%s: %s %q, want %q", name, what, lines[0], lines[1])
			}
		}
	}
}
