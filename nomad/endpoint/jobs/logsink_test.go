package jobs

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// A group needs a node with the log sinks of all of its tasks.
func TestLogSinkConstraints(t *testing.T) {
	logs := func(disabled bool, sinks ...string) *nomad.Task {
		return &nomad.Task{LogConfig: &nomad.LogConfig{Disabled: disabled, Sinks: sinks}}
	}
	tg := &nomad.TaskGroup{Tasks: []*nomad.Task{logs(false, "otlp"), logs(false, "otlp", "journald"), logs(true, "other"), {}}}
	addImplicitConstraints(&nomad.Job{TaskGroups: []*nomad.TaskGroup{tg}}, table.Names(nil))
	var got []string
	for _, c := range tg.Constraints {
		got = append(got, c.LTarget+" "+c.Operand)
	}
	if want := []string{"${attr.log.sink.journald} is_set", "${attr.log.sink.otlp} is_set"}; !slices.Equal(got, want) {
		t.Errorf("constraints %q, want %q", got, want)
	}
}
