package state_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The list of purged nodes is limited: the oldest are removed first.
func TestPurgedNodesAreBounded(t *testing.T) {
	w := newWorld(t)
	purge := func(from, to int, at int64) {
		var ids []string
		for n := from; n < to; n++ {
			id := fmt.Sprint("n", n)
			if _, err := w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: &nomad.Node{ID: id}}); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: ids, Purge: true, PurgedAt: at}))
	}
	purge(0, 2, 100)
	purge(2, 10_001, 200)
	counted := 0
	for n := range 10_001 {
		if at, ok := w.snap().Purged(nil, fmt.Sprint("n", n)); ok {
			counted++
			if want := map[bool]int64{true: 100, false: 200}[n < 2]; at != want {
				t.Errorf("n%d was purged at %d, want %d", n, at, want)
			}
		}
	}
	if counted != 10_000 {
		t.Errorf("%d nodes are on the list, want 10000", counted)
	}
	if _, ok := w.snap().Purged(nil, "n10000"); !ok {
		t.Error("the latest is not on the list")
	}
}

// The list is in snapshots. A node is removed from it when it is admitted again.
func TestPurgedNodesAreRemembered(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"n1", "n2", "n1-2"} {
		if _, err := w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: &nomad.Node{ID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n1", "n1-2"}, Purge: true, PurgedAt: 7}))
	w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n2"}}))
	restore := state.NewRestore(slog.New(slog.DiscardHandler))
	for _, rec := range state.Tables() {
		for row := range rec.Rows(w.snap()) {
			b, err := codec.Encode(row)
			if err != nil {
				t.Fatal(err)
			}
			if err := rec.Read(restore, func(v any) error { return codec.Decode(bytes.Clone(b), v) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	back := restore.Finish()
	for id, want := range map[string]bool{"n1": true, "n1-2": true, "n2": false, "n": false} {
		if at, ok := back.Snapshot().Purged(nil, id); ok != want || ok && at != 7 {
			t.Errorf("%s after the restore: %d, %t", id, at, ok)
		}
	}
	if _, err := back.RegisterNode(back.LatestIndex()+1, &message.NodeRegisterRequest{Node: &nomad.Node{ID: "n1"}}); err != nil {
		t.Fatal(err)
	}
	if _, ok := back.Snapshot().Purged(nil, "n1"); ok {
		t.Error("a node that was admitted again is on the list")
	}
	if _, ok := back.Snapshot().Purged(nil, "n1-2"); !ok {
		t.Error("another node left the list with it")
	}
}
