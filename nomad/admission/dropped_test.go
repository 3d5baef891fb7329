package admission

import (
	"errors"
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

// A region with servers of another build does not accept a job with fields that they drop.
func TestDroppedFieldsNeedOurServers(t *testing.T) {
	refused := errors.New("a server is of another build")
	want := map[string]string{"sinks": `sinks in the logs block of task "t"`, "verify": `verify in an artifact of task "t"`}
	for name, task := range unknownToNomad {
		t.Run(name, func(t *testing.T) {
			asked := ""
			a := New(Config{OnlyOurs: func(feature string) error { asked = feature; return refused }})
			err := a.dropped(jobOf(task))
			if asked != want[name] || (asked != "") != errors.Is(err, refused) {
				t.Errorf("dropped() = %v after asking for %q, want %q", err, asked, want[name])
			}
		})
	}
}
