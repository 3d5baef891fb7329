package jobs

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

func TestSameSpecLooksAtWhatTheJobAsksFor(t *testing.T) {
	job := func() *nomad.Job {
		return &nomad.Job{ID: "j", Type: "batch", Meta: map[string]string{"k": "v"}, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1,
			Tasks: []*nomad.Task{{Name: "t", Config: map[string]any{"n": 1, "list": []any{"a"}}}}}}}
	}
	b, err := codec.Encode(job())
	if err != nil {
		t.Fatal(err)
	}
	old := &nomad.Job{}
	if err := codec.Decode(b, old); err != nil {
		t.Fatal(err)
	}
	old.Status, old.Version, old.ModifyIndex, old.JobModifyIndex, old.CreateIndex, old.Stable = "running", 3, 9, 8, 7, true
	if !sameSpec(old, job()) {
		t.Error("fields set by servers make a difference")
	}
	for name, change := range map[string]func(*nomad.Job){
		"meta":   func(j *nomad.Job) { j.Meta["k"] = "w" },
		"count":  func(j *nomad.Job) { j.TaskGroups[0].Count = 2 },
		"config": func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config["n"] = 2 },
		"stop":   func(j *nomad.Job) { j.Stop = true },
	} {
		j := job()
		change(j)
		if sameSpec(old, j) {
			t.Errorf("a change of %s makes no difference", name)
		}
	}
}
