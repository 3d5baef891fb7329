package client_test

import (
	"errors"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A node whose tasks a client of another build started does not start, and starts none of them
// again: with AdoptNone it reports them as lost.
func TestTasksOfAnotherBuild(t *testing.T) {
	f, dir := startServer(t), nodeDir(t)
	n := start(t, config(dir, f.addr()))
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "it runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	ofUpstream(t, filepath.Join(dir, "client", "state.db"), a.ID)
	cfg := config(dir, f.addr())
	parts := client.Parts{Drivers: []drivers.Driver{mock.New(testLog())}, Log: testLog()}
	if _, err := client.New(cfg, parts); !errors.Is(err, state.ErrForm) {
		t.Fatalf("New() = %v, want ErrForm", err)
	}
	for _, adoptNone := range []bool{true, false} { // once, and then as always
		cfg.AdoptNone = adoptNone
		n = start(t, cfg)
		<-n.Ready()
		f.until(t, "it is lost", func() bool { return status(f, a) == nomad.AllocClientStatusLost })
		if n.HasAlloc(a.ID) {
			t.Error("the allocation runs")
		}
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// ofUpstream changes the handle of the task in a state file to one of upstream's, and takes the
// mark of this project away.
func ofUpstream(t *testing.T, file, alloc string) {
	t.Helper()
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	local, err := nomad.Encode(map[string]any{"TaskHandle": map[string]any{"Version": 1, "Config": map[string]any{"ID": "x"}, "State": "running", "DriverState": []byte{1}}})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		task := tx.Bucket([]byte("allocations")).Bucket([]byte(alloc)).Bucket([]byte("task-main"))
		return errors.Join(tx.Bucket([]byte("meta")).Delete([]byte("open_nomad")), task.Put([]byte("local_state"), local))
	})
	if err != nil {
		t.Fatal(err)
	}
}
