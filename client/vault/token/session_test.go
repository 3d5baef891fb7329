package token

import (
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// TestStop_DuringRenewal checks that a renewal which ends after its task does not remove the end of the token from the store.
func TestStop_DuringRenewal(t *testing.T) {
	db, err := state.Open(state.Config{Dir: t.TempDir(), NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	node := NewNode(NodeConfig{Store: db, Log: slog.New(slog.DiscardHandler)})
	m := node.NewManager(Config{Alloc: &nomad.Allocation{ID: "6f0a3f1e-5b1c-4c55-9f0e-0d3a4b5c6d7e"}})
	s := m.newSession(&nomad.Task{Name: "web", Vault: &nomad.Vault{}})
	one := &state.VaultToken{ID: "a", Task: "web", Secret: "x", Created: time.Now(), Lease: time.Hour, Renewable: true}
	s.restore(one)
	m.sessions, m.prepared = map[string]*session{"web": s}, true
	m.EndTask("web")
	longer := lasting(time.Now(), 2*time.Hour, false)
	s.accepted(one, &longer)
	if err := db.PutVaultToken(m.cfg.Alloc.ID, &state.VaultToken{ID: "b", Task: "db"}); err != nil { // waits for the commits before
		t.Fatal(err)
	}
	stored, err := db.VaultTokens(m.cfg.Alloc.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range stored[m.cfg.Alloc.ID] {
		if got.ID == one.ID && got.Ended.IsZero() {
			t.Error("the stored token has no end any more")
		}
	}
	if n := len(stored[m.cfg.Alloc.ID]); n != 2 {
		t.Errorf("%d tokens are stored, want 2", n)
	}
}
