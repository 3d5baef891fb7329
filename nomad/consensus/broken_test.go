package consensus_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/consensus"
)

// breakingFSM fails at its first command and counts its commands.
type breakingFSM struct{ entries atomic.Int64 }

var errBroken = errors.New("broken")

func (f *breakingFSM) Apply(*raft.Log) any {
	f.entries.Add(1)
	return errBroken
}

func (f *breakingFSM) ApplyBatch(entries []*raft.Log) []any {
	out := make([]any, len(entries))
	for i, entry := range entries {
		if entry.Type == raft.LogCommand {
			out[i] = f.Apply(entry)
		}
	}
	return out
}

func (f *breakingFSM) Broken() error {
	if f.entries.Load() > 0 {
		return errBroken
	}
	return nil
}

func (f *breakingFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, f.Broken() }
func (f *breakingFSM) Restore(io.ReadCloser) error         { return errBroken }

// A leader whose FSM has failed must not write, because its decisions rest on an incomplete
// state.
func TestApply_BrokenFSM(t *testing.T) {
	f := &breakingFSM{}
	r, err := consensus.Open(consensus.Config{FSM: f, Address: "127.0.0.1:4647", Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for leads := false; !leads; leads = <-r.Leadership() {
	}
	if err := r.Barrier(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Apply(context.Background(), 1, map[string]any{}); !errors.Is(err, errBroken) {
			t.Errorf("Apply() = %v", err)
		}
	}
	if err := r.Barrier(context.Background()); !errors.Is(err, errBroken) {
		t.Errorf("Barrier() = %v", err)
	}
	if n := f.entries.Load(); n != 1 {
		t.Errorf("%d commands were written, want the first only", n)
	}
}
