// Package testjobs has jobs and nodes for tests of the rules that depend on the driver of a task: those of admission, and
// the constraints that the servers add. It is for tests only, keeps no state and starts no goroutine.
package testjobs

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// Node returns a node with two instances of exec2, "exec2" and "exec2-open", and with one of a driver that is not built-in.
func Node() *nomad.Node {
	return &nomad.Node{
		Drivers: map[string]*nomad.DriverInfo{"exec2": {Detected: true}, "exec2-open": {Detected: true}, "podman": {Detected: true}},
		Attributes: map[string]string{"driver.exec2.backend": "exec2", "driver.exec2-open": "1", "driver.exec2-open.backend": "exec2",
			"driver.podman": "1", "driver.podman.backend": "podman"},
	}
}

// Exec2 returns a canonical job with one exec2 task.
func Exec2(change func(*nomad.Task)) *nomad.Job {
	t := &nomad.Task{Name: "t", Driver: "exec2", Config: map[string]any{"command": "true"}}
	change(t)
	job := &nomad.Job{ID: "j", Name: "j", Region: "global", Type: nomad.JobTypeBatch, Priority: 50,
		TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1, Tasks: []*nomad.Task{t}}}}
	jobrules.Canonicalize(job)
	return job
}

// UnknownToNomad returns a job for each field of a task that servers and clients of another build ignore, by name. The
// jobs are not canonical.
func UnknownToNomad() map[string]*nomad.Job {
	out := map[string]*nomad.Job{}
	for name, t := range map[string]*nomad.Task{
		"plain":    {},
		"logs":     {LogConfig: &nomad.LogConfig{}, Artifacts: []*nomad.TaskArtifact{{}}},
		"sinks":    {LogConfig: &nomad.LogConfig{Sinks: []string{"journald"}}},
		"verify":   {Artifacts: []*nomad.TaskArtifact{{}, {Verify: &nomad.ArtifactVerify{}}}},
		"owner":    {VolumeMounts: []*nomad.VolumeMount{{Volume: "v"}, {Volume: "v", Owner: "task"}}},
		"schedule": {Schedule: &nomad.TaskSchedule{}},
	} {
		t.Name, t.Driver = "t", "exec2"
		out[name] = &nomad.Job{ID: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{t}}}}
	}
	return out
}
