package jobs

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/kinds"
)

// table is the table of the built-in kinds, as agents hand it to servers.
var table = kinds.Table(drivers.Table())

func TestLandlockConstraint(t *testing.T) {
	job := testjobs.Exec2(func(t *nomad.Task) { t.Config["require_abi"] = 6 })
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
	job := testjobs.Exec2(func(t *nomad.Task) { t.Driver, t.Config["require_abi"] = "exec2-open", 5 })
	more := codec.Copy(job.TaskGroups[0].Tasks[0])
	more.Name, more.Driver, more.Config["require_abi"] = "more", "exec2", 7
	job.TaskGroups[0].Tasks = append(job.TaskGroups[0].Tasks, more)
	addImplicitConstraints(job, table.Names(slices.Values([]*nomad.Node{testjobs.Node()})))
	var got []string
	for _, c := range job.TaskGroups[0].Constraints {
		got = append(got, c.LTarget+" "+c.Operand+" "+c.RTarget)
	}
	if want := []string{"${attr.driver.exec2-open.landlock.abi} >= 5", "${attr.driver.exec2.landlock.abi} >= 7"}; !slices.Equal(got, want) {
		t.Errorf("constraints = %q, want %q", got, want)
	}
}
