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
