package state_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The database of a stopped client is read completely, from either directory, and stays the same.
func TestRead(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "client")
	db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	healthy := true
	err = errors.Join(
		db.PutAlloc(&nomad.Allocation{ID: runningID, NodeID: "n", JobID: "j"}),
		db.PutDeployStatus(runningID, &nomad.AllocDeploymentStatus{Healthy: &healthy}),
		db.PutIdentities(runningID, []*message.SignedWorkloadIdentity{{JWT: "a.b.c"}}),
		db.PutTask(runningID, "t", state.Task{State: &nomad.TaskState{State: nomad.TaskStateRunning}}),
		db.PutNodeIdentity(idtoken.New("x.y.z", "")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Read(dir); !errors.Is(err, state.ErrInUse) {
		t.Errorf("of a running client: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{data, dir} {
		c, err := state.Read(at)
		if err != nil {
			t.Fatal(err)
		}
		a := c.Allocs[runningID]
		if len(c.Allocs) != 1 || a.Alloc.JobID != "j" || !*a.Deploy.Healthy || a.Identities[0].JWT != "a.b.c" ||
			a.Tasks["t"].State.State != nomad.TaskStateRunning || c.Node.Reveal() != "x.y.z" {
			t.Errorf("Read(%s) = %+v", at, c)
		}
	}
	after, err := os.ReadFile(filepath.Join(dir, "state.db"))
	if err != nil || string(before) != string(after) {
		t.Errorf("the file has changed, %v", err)
	}
}

func TestReadRefusals(t *testing.T) {
	empty := t.TempDir()
	if _, err := state.Read(empty); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "state.db"), []byte("not a database, and long enough for a header of one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Read(bad); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("of a damaged file: %v", err)
	}
}
