package jobs

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestImplicitConstraintsAreAddedOnce(t *testing.T) {
	job := &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{
		{Name: "a", KillSignal: "SIGUSR1", Identities: []*nomad.WorkloadIdentity{{Name: "aws", ChangeSignal: "SIGHUP"}}},
		{Name: "b", KillSignal: "SIGUSR1"},
	}}, {Name: "plain", Tasks: []*nomad.Task{{Name: "c"}}}}}
	addImplicitConstraints(job, table.Names(nil))
	addImplicitConstraints(job, table.Names(nil))
	got := job.TaskGroups[0].Constraints
	if len(got) != 2 || got[0].RTarget != ">= 1.7.0-a" || got[1].RTarget != "SIGHUP,SIGUSR1" {
		t.Errorf("constraints = %v", got)
	}
	if len(job.TaskGroups[1].Constraints) != 0 {
		t.Error("a group that needs nothing is constrained")
	}
}

func TestImplicitConstraintsOfNetworks(t *testing.T) {
	group := func(n *nomad.NetworkResource) *nomad.TaskGroup {
		return &nomad.TaskGroup{Networks: nomad.Networks{n}, Tasks: []*nomad.Task{{Name: "a"}}}
	}
	job := &nomad.Job{TaskGroups: []*nomad.TaskGroup{group(&nomad.NetworkResource{Mode: "bridge"}),
		group(&nomad.NetworkResource{Mode: "bridge", Egress: &nomad.NetworkEgress{}}), group(&nomad.NetworkResource{Mode: "cni/x"})}}
	addImplicitConstraints(job, table.Names(nil))
	addImplicitConstraints(job, table.Names(nil))
	for i, want := range []int{5, 6, 0} {
		if got := job.TaskGroups[i].Constraints; len(got) != want {
			t.Errorf("group %d: constraints = %v, want %d", i, got, want)
		}
	}
	if c := job.TaskGroups[0].Constraints[0]; *c != (nomad.Constraint{LTarget: "${attr.plugins.cni.version.bridge}", RTarget: ">= 0.4.0", Operand: "semver"}) {
		t.Errorf("constraint = %+v", c)
	}
	if c := job.TaskGroups[1].Constraints[5]; c.LTarget != "${attr.nomad.bridge.isolation}" {
		t.Errorf("constraint = %+v", c)
	}
}
