package consensus_test

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// take returns a snapshot of a server.
func take(t *testing.T, s server) (*raft.SnapshotMeta, []byte) {
	t.Helper()
	meta, r, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	state, err := io.ReadAll(r)
	if err != nil || int64(len(state)) != meta.Size {
		t.Fatalf("%d bytes of state, %v, the snapshot says %d", len(state), err, meta.Size)
	}
	return meta, state
}

func (s server) namespaces() (names []string) {
	for ns := range s.fsm.State().Snapshot().Namespaces(nil) {
		names = append(names, ns.Name)
	}
	return names
}

func TestSaveAndRestore(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dir)
			s.lead(t)
			s.addNamespace(t, "one")
			meta, state := take(t, s)
			if again, same := take(t, s); again.Index != meta.Index || !bytes.Equal(same, state) {
				t.Errorf("the same state gives another snapshot: index %d, then %d", meta.Index, again.Index)
			}
			last := s.addNamespace(t, "two")
			old := s.fsm.State()
			if err := s.Restore(meta, bytes.NewReader(state)); err != nil {
				t.Fatal(err)
			}
			select {
			case <-old.Abandoned():
			default:
				t.Error("watchers of the old state are not notified")
			}
			if got := s.namespaces(); !slices.Equal(got, []string{"default", "one"}) {
				t.Errorf("namespaces after the restore: %v", got)
			}
			if index := s.addNamespace(t, "three"); index <= last {
				t.Errorf("the index went back from %d to %d", last, index)
			}
			if dir == "" {
				return
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir)
			s.lead(t)
			if got := s.namespaces(); !slices.Equal(got, []string{"default", "one", "three"}) {
				t.Errorf("namespaces after the restart: %v", got)
			}
		})
	}
}

// The first command after a restore is accepted.
func TestRestore_ThenApply(t *testing.T) {
	s := open(t, "")
	s.lead(t)
	meta, state := take(t, s)
	for range 300 {
		if err := s.Restore(meta, bytes.NewReader(state)); err != nil {
			t.Fatal(err)
		}
		s.addNamespace(t, "one")
	}
}

// A snapshot that is shorter than its metadata claims is refused and changes nothing.
func TestRestore_OtherSize(t *testing.T) {
	s := open(t, t.TempDir())
	s.lead(t)
	meta, state := take(t, s)
	s.addNamespace(t, "one")
	if err := s.Restore(meta, bytes.NewReader(state[:len(state)-1])); err == nil {
		t.Error("Restore() accepts it")
	}
	if got := s.namespaces(); !slices.Equal(got, []string{"default", "one"}) {
		t.Errorf("namespaces: %v", got)
	}
}
