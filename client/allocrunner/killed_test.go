package allocrunner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// An agent was killed after it had stored that a task is dead, and before it removed the task's
// secrets. The next agent removes them.
func TestSecretsOfDeadTasksAreRemoved(t *testing.T) {
	w := newWorld(t)
	alloc := allocation(nomad.JobTypeBatch, mockTask("main", map[string]any{"run_for": "1h"}))
	root := filepath.Join(w.dir, "alloc")
	dir, err := allocdir.Build(root, alloc.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	task, err := dir.BuildTask(allocdir.TaskConfig{Name: "main", UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	err = task.Secrets().Replace("token", []byte("x"), safefs.File{Mode: 0o600, UID: -1, GID: -1})
	task.Close()
	if err != nil {
		t.Fatal(err)
	}
	dead := &nomad.TaskState{State: nomad.TaskStateDead, StartedAt: time.Now(), FinishedAt: time.Now()}
	if err := w.db.PutTask(alloc.ID, "main", state.Task{Local: &state.LocalState{}, State: dead}); err != nil {
		t.Fatal(err)
	}
	r := w.runner(alloc)
	if err := r.Restore(); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	secrets := task.SecretsPath()
	left, err := os.ReadDir(secrets)
	if err != nil || len(left) != 0 {
		t.Errorf("secrets: %v, %v, want none", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), " "+secrets+" ") {
		t.Errorf("they are still mounted (%v)", err)
	}
	if err := r.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}
