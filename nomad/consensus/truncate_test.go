package consensus_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
)

// A log that lost its tail to a new leader is readable after the next start.
func TestTruncatedLogIsRead(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.lead(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		s.addNamespace(t, name)
	}
	index := s.addNamespace(t, "cut")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	meta := &metadb.BoltMetaDB{}
	log, err := wal.Open(dir+"/raft/wal", wal.WithMetaStore(meta))
	if err != nil {
		t.Fatal(err)
	}
	if err := log.DeleteRange(index, index); err != nil {
		t.Fatal(err)
	}
	if err := log.StoreLog(&raft.Log{Index: index, Term: 9, Type: raft.LogNoop, AppendedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Close(), meta.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it stays readable
		again := open(t, dir)
		again.lead(t)
		snap := again.fsm.State().Snapshot()
		if snap.Namespace(nil, "d") == nil || snap.Namespace(nil, "cut") != nil {
			t.Error("the log does not have exactly the remaining entries")
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
