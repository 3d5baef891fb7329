package consensus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// tuned opens a log with the given settings.
func tuned(t *testing.T, dir string, tuning consensus.Tuning, noCache bool) server {
	t.Helper()
	f := fsm.New(state.New(nil), nil, nil)
	r, err := consensus.Open(consensus.Config{FSM: f, Dir: dir, Bootstrap: true, Address: "127.0.0.1:4647", Tuning: tuning,
		NoLogCache: noCache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return server{r, f}
}

// Unset settings have defaults. Set values take effect and may change while the server runs.
func TestTuning(t *testing.T) {
	standard := consensus.Tuning{Multiplier: 1, SnapshotThreshold: 8192, SnapshotInterval: 120 * time.Second, TrailingLogs: 10240}
	if got := tuned(t, "", consensus.Tuning{}, false).Tuned(); got != standard {
		t.Errorf("Tuned() = %+v, want %+v", got, standard)
	}
	first := consensus.Tuning{Multiplier: 2, SnapshotThreshold: 3, SnapshotInterval: 4 * time.Second, TrailingLogs: 5}
	s := tuned(t, "", first, false)
	if got := s.Tuned(); got != first {
		t.Errorf("Tuned() = %+v, want %+v", got, first)
	}
	second := consensus.Tuning{Multiplier: 3, SnapshotThreshold: 30, SnapshotInterval: 40 * time.Second, TrailingLogs: 50}
	if err := s.Tune(second); err != nil || s.Tuned() != second {
		t.Errorf("Tune() = %v, Tuned() = %+v, want %+v", err, s.Tuned(), second)
	}
	if err := s.Tune(consensus.Tuning{SnapshotInterval: time.Nanosecond}); err == nil || s.Tuned() != second {
		t.Errorf("Tune() = %v, Tuned() = %+v, want the previous settings", err, s.Tuned())
	}
}

// A snapshot is written after the threshold number of entries, with and without the cache.
func TestSnapshotThreshold(t *testing.T) {
	for _, noCache := range []bool{false, true} {
		t.Run(fmt.Sprintf("no cache %v", noCache), func(t *testing.T) {
			dir := t.TempDir()
			s := tuned(t, dir, consensus.Tuning{SnapshotThreshold: 4, SnapshotInterval: 10 * time.Millisecond, TrailingLogs: 1}, noCache)
			s.lead(t)
			for i := range 8 {
				s.addNamespace(t, fmt.Sprint("n", i))
			}
			deadline := time.Now().Add(time.Minute)
			for {
				entries, err := os.ReadDir(filepath.Join(dir, "raft", "snapshots"))
				if err != nil {
					t.Fatal(err)
				}
				if len(entries) > 0 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatal("no snapshot was written")
				}
				s.addNamespace(t, "again")
			}
		})
	}
}
