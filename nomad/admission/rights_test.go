package admission

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Bidirectional propagation, and a mode that may resolve to it, needs mount-readwrite even on a volume that
// is only read.
func TestPropagationRights(t *testing.T) {
	for policy, allowed := range map[string]map[string]bool{
		"read":  {"": true, "private": true, "host-to-task": true, "bidirectional": false, "${meta.p}": false},
		"write": {"": true, "private": true, "host-to-task": true, "bidirectional": true, "${meta.p}": true},
	} {
		parsed, err := acl.Parse(`host_volume "data" { policy = "` + policy + `" }`)
		if err != nil {
			t.Fatal(err)
		}
		for mode, want := range allowed {
			for _, volume := range []string{"v", "${meta.v}"} {
				job := &nomad.Job{Namespace: "default", TaskGroups: []*nomad.TaskGroup{{Name: "g",
					Volumes: map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeHost, Source: "data", ReadOnly: true}},
					Tasks:   []*nomad.Task{{Name: "t", VolumeMounts: []*nomad.VolumeMount{{Volume: volume, PropagationMode: mode}}}}}}}
				caller := Caller(&rpc.Access{Rights: acl.New(false, parsed)})
				if err := New(Config{}).Rights(caller, job); (err == nil) != want {
					t.Errorf("%s, %s of %s: %v, want allowed %v", policy, mode, volume, err, want)
				}
			}
		}
	}
}

// TestRights_ManyVolumes checks that the rights of a job with many volumes are not compared with each other, which takes
// minutes.
func TestRights_ManyVolumes(t *testing.T) {
	const n = 20_000
	tg := &nomad.TaskGroup{Name: "g", Volumes: map[string]*nomad.VolumeRequest{}}
	for i := range n {
		name := fmt.Sprint("v", i)
		tg.Volumes[name] = &nomad.VolumeRequest{Name: name, Type: nomad.VolumeTypeHost, Source: name}
	}
	task := &nomad.Task{Name: "t"}
	for range 1000 {
		task.VolumeMounts = append(task.VolumeMounts, &nomad.VolumeMount{Volume: "${meta.v}", PropagationMode: nomad.VolumeMountBidirectional})
	}
	tg.Tasks = []*nomad.Task{task}
	job := &nomad.Job{ID: "j", Namespace: "default", TaskGroups: []*nomad.TaskGroup{tg}}
	if got := len(needsOf(job)); got != 2*n {
		t.Errorf("the job needs %d rights, want %d", got, 2*n)
	}
	store := state.New(slog.New(slog.DiscardHandler))
	if got := New(Config{}).At(store.Snapshot()).registrant(Author(job), job); got == nil || len(got.Rights) != n {
		t.Errorf("registrant() = %.100v, want %d rights", got, n)
	}
}
