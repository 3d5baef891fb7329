package jobs

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/kinds"
)

// table is the table of the built-in kinds, as agents hand it to servers.
var table = kinds.Table(drivers.Table())

// exec2Open is a node with an instance of exec2, and with one of a driver that is not built-in.
var exec2Open = &nomad.Node{
	Drivers: map[string]*nomad.DriverInfo{"exec2": {Detected: true}, "exec2-open": {Detected: true}, "podman": {Detected: true}},
	Attributes: map[string]string{"driver.exec2.backend": "exec2", "driver.exec2-open": "1", "driver.exec2-open.backend": "exec2",
		"driver.podman": "1", "driver.podman.backend": "podman"},
}

// exec2Job returns a canonical job with one exec2 task.
func exec2Job(change func(*nomad.Task)) *nomad.Job {
	t := &nomad.Task{Name: "t", Driver: "exec2", Config: map[string]any{"command": "true"}}
	change(t)
	job := &nomad.Job{ID: "j", Name: "j", Region: "global", Type: nomad.JobTypeBatch, Priority: 50, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1, Tasks: []*nomad.Task{t}}}}
	jobrules.Canonicalize(job)
	return job
}

func TestLandlockConstraint(t *testing.T) {
	job := exec2Job(func(t *nomad.Task) { t.Config["require_abi"] = 6 })
	more := codec.Copy(job.TaskGroups[0].Tasks[0])
	more.Name, more.Config["require_abi"] = "more", 7
	other := codec.Copy(more)
	other.Name, other.Driver, other.Config["require_abi"] = "other", "mock_driver", 9
	job.TaskGroups[0].Tasks = append(job.TaskGroups[0].Tasks, more, other)
	addImplicitConstraints(job, table.Names(nil))
	got := job.TaskGroups[0].Constraints
	if len(got) != 1 || got[0].LTarget != "${attr.driver.exec2.landlock.abi}" || got[0].Operand != ">=" || got[0].RTarget != "7" {
		t.Errorf("constraints = %+v, want ABI 7", got)
	}
}

// TestConstraintOfInstance checks that a constraint names the attribute of the task's instance.
func TestConstraintOfInstance(t *testing.T) {
	job := exec2Job(func(t *nomad.Task) { t.Driver, t.Config["require_abi"] = "exec2-open", 5 })
	more := codec.Copy(job.TaskGroups[0].Tasks[0])
	more.Name, more.Driver, more.Config["require_abi"] = "more", "exec2", 7
	job.TaskGroups[0].Tasks = append(job.TaskGroups[0].Tasks, more)
	addImplicitConstraints(job, table.Names(slices.Values([]*nomad.Node{exec2Open})))
	var got []string
	for _, c := range job.TaskGroups[0].Constraints {
		got = append(got, c.LTarget+" "+c.Operand+" "+c.RTarget)
	}
	if want := []string{"${attr.driver.exec2-open.landlock.abi} >= 5", "${attr.driver.exec2.landlock.abi} >= 7"}; !slices.Equal(got, want) {
		t.Errorf("constraints = %q, want %q", got, want)
	}
}
