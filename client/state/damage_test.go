package state_test

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// Whatever few bytes of a file are changed, it is refused or it works: it never ends
// the program, nor keeps it busy.
func TestDamageAnywhere(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for range 100 {
		if err := db.PutAlloc(&nomad.Allocation{ID: nomad.NewID(), Name: "damaged"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state.db")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		bad := append([]byte(nil), good...)
		for range 1 + r.IntN(3) {
			within := 4096
			if r.IntN(2) == 0 {
				within = 128 // the head of a page, on which all depends
			}
			bad[r.IntN(len(bad)/4096)*4096+r.IntN(within)] = byte(r.Uint32())
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			if !errors.Is(err, state.ErrCorrupt) && !errors.Is(err, state.ErrForm) { // what marks the file as ours may be gone
				t.Errorf("seed %d: Open() = %v, want ErrCorrupt or ErrForm", seed, err)
			}
			refused++
			continue
		}
		if err := db.PutAlloc(&nomad.Allocation{ID: nomad.NewID()}); err != nil {
			t.Errorf("seed %d: PutAlloc() = %v", seed, err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("seed %d: Close() = %v", seed, err)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
