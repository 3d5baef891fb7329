package consensus_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
)

// A server with a new ID and an old log would not be a member of its own cluster. A single
// server could never be elected.
func TestOpen_LostID(t *testing.T) {
	open := func(dir, backend string) (*consensus.Raft, error) {
		return consensus.Open(consensus.Config{FSM: &breakingFSM{}, Dir: dir, Address: "127.0.0.1:4647", Bootstrap: true,
			Backend: logstore.Backend{Name: backend}})
	}
	for _, backend := range []string{logstore.WAL, logstore.Bolt} {
		for name, remove := range map[string]func(string) error{
			"removed": os.Remove,
			"emptied": func(path string) error { return os.Truncate(path, 0) },
		} {
			t.Run(backend+" "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "server")
				path := filepath.Join(dir, "node-id")
				r, err := open(dir, backend)
				if err != nil {
					t.Fatal(err)
				}
				id := r.ID()
				if err := errors.Join(r.Close(), remove(path)); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					r, err := open(dir, backend)
					if err == nil {
						t.Errorf("it starts with the ID %s, not %s", r.ID(), id)
						_ = r.Close()
						return
					}
					if !errors.Is(err, consensus.ErrNoID) || !strings.Contains(err.Error(), path) {
						t.Errorf("Open() = %v", err)
					}
				}
				if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				if r, err = open(dir, backend); err != nil {
					t.Fatal(err)
				}
				if r.ID() != id {
					t.Errorf("the ID is %s, not %s", r.ID(), id)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
