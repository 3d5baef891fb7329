package consensus_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// twoSnapshots returns the directory of a stopped server with two snapshots.
func twoSnapshots(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	s.lead(t)
	for _, name := range []string{"one", "two"} {
		s.addNamespace(t, name)
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	return dir
}

// A server does not use an older snapshot. The error names the unreadable one, and no file
// changes.
func TestDamagedSnapshot(t *testing.T) {
	good := twoSnapshots(t)
	for name, c := range map[string]struct{ file, text, want string }{
		"state":       {"state.bin", "x", "CRC mismatch"},
		"description": {"meta.json", "{", "raft log is damaged"},
		"version":     {"meta.json", `{"Version": 9}`, "version 9"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			copyTree(t, good, dir)
			snaps, err := filepath.Glob(filepath.Join(dir, "raft/snapshots/*"))
			if err != nil || len(snaps) != 2 {
				t.Fatal(snaps, err)
			}
			newest := snaps[1] // by term and index
			if err := os.WriteFile(filepath.Join(newest, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			before := sizes(t, filepath.Join(dir, "raft/snapshots"))
			_, err = tryOpen(t, dir)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), newest) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("Open() = %v, want one line with %q and %q", err, c.want, newest)
			}
			for path, size := range before {
				if got := sizes(t, dir)[path]; got != size {
					t.Errorf("%s has %d bytes, had %d", path, got, size)
				}
			}
		})
	}
}

// An incomplete snapshot leaves nothing behind, whether it failed or a crash occurred.
func TestUnfinishedSnapshot(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "raft/snapshots/1-2-3.tmp")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	f := &failing{FSM: fsm.New(state.New(nil), nil, slog.New(slog.DiscardHandler))}
	s, err := tryOpen(t, dir, func(c *consensus.Config) { c.FSM = f })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s exists: %v", left, err)
	}
	s.lead(t)
	s.addNamespace(t, "one")
	if err := s.Snapshot(); err == nil || !strings.Contains(err.Error(), "no pages") {
		t.Errorf("Snapshot() = %v", err)
	}
	if now, err := filepath.Glob(filepath.Join(dir, "raft/snapshots/*")); len(now) > 0 || err != nil {
		t.Errorf("the failed snapshot left %v, %v", now, err)
	}
	s.addNamespace(t, "two") // the server continues
}

// A server that was killed while it removed an old snapshot starts and removes the rest. The
// same remains of a current snapshot are an error.
func TestHalfRemovedSnapshot(t *testing.T) {
	good := twoSnapshots(t)
	for id, starts := range map[string]bool{"2-1-1": true, "1-9000-1": true, "2-9000-1": false, "10-1-1": false, "east": false} {
		t.Run(id, func(t *testing.T) {
			dir := t.TempDir()
			copyTree(t, good, dir)
			left := filepath.Join(dir, "raft/snapshots", id)
			if err := os.Mkdir(left, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(left, "state.bin"), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := tryOpen(t, dir)
			if err == nil {
				s.Close()
			} else if !strings.Contains(err.Error(), left) {
				t.Errorf("Open() = %v, want it to name %s", err, left)
			}
			if starts != (err == nil) {
				t.Errorf("Open() = %v, want it to start: %t", err, starts)
			}
			if _, err := os.Lstat(left); starts != errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v, want it removed: %t", left, err, starts)
			}
		})
	}
}

// failing is an FSM whose snapshots fail in the middle.
type failing struct{ *fsm.FSM }

func (f *failing) Snapshot() (raft.FSMSnapshot, error) { return f, nil }

// Persist implements raft.FSMSnapshot.
func (f *failing) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(make([]byte, 1<<16)); err != nil {
		return err
	}
	return errors.New("no pages left")
}

// Release implements raft.FSMSnapshot.
func (f *failing) Release() {}
