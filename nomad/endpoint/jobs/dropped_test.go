package jobs

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
)

// A task that other clients would run in another way runs on clients of this project only.
func TestIgnoredFieldsNeedOurClients(t *testing.T) {
	want := map[string]string{"sinks": "${attr.log.sink.journald}", "verify": "${attr.driver.exec2.backend}",
		"schedule": "${attr.driver.exec2.backend}", "owner": "${attr.driver.exec2.backend}"}
	for name, job := range testjobs.UnknownToNomad() {
		t.Run(name, func(t *testing.T) {
			addImplicitConstraints(job, table.Names(nil))
			addImplicitConstraints(job, table.Names(nil))
			var got []string
			for _, c := range job.TaskGroups[0].Constraints {
				if c.Operand == nomad.ConstraintAttributeIsSet {
					got = append(got, c.LTarget)
				}
			}
			if strings.Join(got, " ") != want[name] {
				t.Errorf("constraints on %v, want %q", got, want[name])
			}
		})
	}
}
