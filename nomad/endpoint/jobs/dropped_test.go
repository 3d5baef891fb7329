package jobs

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// unknownToNomad has a task for each field that servers and clients of another build ignore.
var unknownToNomad = map[string]nomad.Task{
	"plain":    {},
	"logs":     {LogConfig: &nomad.LogConfig{}, Artifacts: []*nomad.TaskArtifact{{}}},
	"sinks":    {LogConfig: &nomad.LogConfig{Sinks: []string{"journald"}}},
	"verify":   {Artifacts: []*nomad.TaskArtifact{{}, {Verify: &nomad.ArtifactVerify{}}}},
	"schedule": {Schedule: &nomad.TaskSchedule{}},
}

func jobOf(t nomad.Task) *nomad.Job {
	t.Name, t.Driver = "t", "exec2"
	return &nomad.Job{ID: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{&t}}}}
}

// A task that other clients would run in another way runs on clients of this project only.
func TestIgnoredFieldsNeedOurClients(t *testing.T) {
	want := map[string]string{"sinks": "${attr.log.sink.journald}", "verify": "${attr.driver.exec2.backend}", "schedule": "${attr.driver.exec2.backend}"}
	for name, task := range unknownToNomad {
		t.Run(name, func(t *testing.T) {
			job := jobOf(task)
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
