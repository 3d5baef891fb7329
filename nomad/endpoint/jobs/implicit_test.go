package jobs

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestImplicitConstraintsAreAddedOnce(t *testing.T) {
	job := &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{
		{Name: "a", KillSignal: "SIGUSR1", Identities: []*nomad.WorkloadIdentity{{Name: "aws", ChangeSignal: "SIGHUP"}}},
		{Name: "b", KillSignal: "SIGUSR1", Secrets: []*nomad.Secret{{Provider: "own"}, {Provider: "nomad"}, {Provider: "own"}}},
	}}, {Name: "plain", Tasks: []*nomad.Task{{Name: "c"}}}}}
	addImplicitConstraints(job, table.Names(nil))
	addImplicitConstraints(job, table.Names(nil))
	got := job.TaskGroups[0].Constraints
	if len(got) != 4 || got[0].RTarget != ">= 1.7.0-a" || got[1].RTarget != "SIGHUP,SIGUSR1" ||
		got[2].LTarget != "${attr.plugins.secrets.nomad.version}" || got[3].LTarget != "${attr.plugins.secrets.own.version}" {
		t.Errorf("constraints = %v", got)
	}
	if len(job.TaskGroups[1].Constraints) != 0 {
		t.Error("a group that needs nothing is constrained")
	}
}

// scripted returns a job with services, and a check that runs a script in the task b.
func scripted(driver string) *nomad.Job {
	check := &nomad.ServiceCheck{Type: nomad.ServiceCheckScript, TaskName: "b", Command: "/bin/true", Interval: time.Second,
		Timeout: time.Second}
	job := &nomad.Job{ID: "j", Region: "global", TaskGroups: []*nomad.TaskGroup{
		{Name: "scripts", Services: []*nomad.Service{{Name: "web", Provider: "nomad", Checks: []*nomad.ServiceCheck{check}}},
			Tasks: []*nomad.Task{
				{Name: "a", Driver: driver, Config: map[string]any{"command": "true"}},
				{Name: "b", Driver: driver, Config: map[string]any{"command": "true"}}}},
		{Name: "plain", Tasks: []*nomad.Task{{Name: "a", Driver: driver, Config: map[string]any{"command": "true"},
			Services: []*nomad.Service{{Name: "web", Provider: "nomad"}}}}}}}
	jobrules.Canonicalize(job)
	return job
}

func TestConstraintsOfServices(t *testing.T) {
	job := scripted("exec2")
	addImplicitConstraints(job, table.Names(nil))
	addImplicitConstraints(job, table.Names(nil))
	for i, want := range [][]nomad.Constraint{
		{{LTarget: "${attr.nomad.service_discovery}", RTarget: "true", Operand: "="},
			{LTarget: "${attr.nomad.version}", RTarget: ">= 1.4.0", Operand: "semver"},
			{LTarget: "${attr.driver.exec2.backend}", Operand: "is_set"}},
		{{LTarget: "${attr.nomad.service_discovery}", RTarget: "true", Operand: "="}},
	} {
		var got []nomad.Constraint
		for _, c := range job.TaskGroups[i].Constraints {
			got = append(got, *c)
		}
		if !slices.Equal(got, want) {
			t.Errorf("constraints of group %d = %+v, want %+v", i, got, want)
		}
	}
}

// Only the driver of the task that runs the script must be able to run programs in its tasks.
func TestScriptChecksNeedExec(t *testing.T) {
	if errs, _ := admission.Check(scripted("exec2"), table); len(errs) > 0 {
		t.Error(errs)
	}
	none := maps.Clone(table)
	kind := *none["exec2"]
	kind.Capabilities.Exec = false
	none["exec2"] = &kind
	errs, _ := admission.Check(scripted("exec2"), none)
	err := strings.Join(errs, "\n")
	if !strings.Contains(err,
		`group "scripts", task "b": driver "exec2" cannot run script checks in its tasks: use another driver, such as `) ||
		strings.Contains(err, `task "a"`) {
		t.Errorf("Check() = %s", err)
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
	if c := job.TaskGroups[0].Constraints[0]; *c != (nomad.Constraint{LTarget: "${attr.plugins.cni.version.bridge}", RTarget: ">= 0.4.0",
		Operand: "semver"}) {
		t.Errorf("constraint = %+v", c)
	}
	if c := job.TaskGroups[1].Constraints[5]; c.LTarget != "${attr.nomad.bridge.isolation}" {
		t.Errorf("constraint = %+v", c)
	}
}
