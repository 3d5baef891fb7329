package client_test

import (
	"errors"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A node with tasks that a client of another build started does not start. With AdoptNone it
// starts, reports the tasks as lost and does not run them again.
func TestAdopt_AnotherBuild(t *testing.T) {
	f, dir := clienttest.StartServer(t), clienttest.Dir(t)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	ofUpstream(t, filepath.Join(dir, "client", "state.db"), a.ID)
	cfg := clienttest.Config(dir, f.Addr())
	parts := client.Parts{Drivers: []drivers.Driver{mock.New(mock.Name, clienttest.Log())}, Log: clienttest.Log()}
	if _, err := client.New(cfg, parts); !errors.Is(err, state.ErrForm) {
		t.Fatalf("New() = %v, want ErrForm", err)
	}
	for _, adoptNone := range []bool{true, false} { // the second start needs no flag
		cfg.AdoptNone = adoptNone
		n = clienttest.Start(t, cfg)
		<-n.Ready()
		f.Until(t, "the allocation is lost", func() bool { return f.Status(a) == nomad.AllocClientStatusLost })
		if n.HasAlloc(a.ID) {
			t.Error("the allocation runs")
		}
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// ofUpstream replaces the handle of the task in a state file by one of Nomad 2.0, and this project's
// marks by Nomad's version.
func ofUpstream(t *testing.T, file, alloc string) {
	t.Helper()
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	local, err := codec.Encode(map[string]any{"TaskHandle": map[string]any{"Version": 1, "Config": map[string]any{"ID": "x"},
		"State": "running", "DriverState": []byte{1}}})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		task := tx.Bucket([]byte("allocations")).Bucket([]byte(alloc)).Bucket([]byte("task-main"))
		meta := tx.Bucket([]byte("meta"))
		return errors.Join(meta.Delete([]byte("open_nomad")), meta.Put([]byte("version"), []byte("2")), task.Put([]byte("local_state"), local))
	})
	if err != nil {
		t.Fatal(err)
	}
}
