package client

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// endedSet returns a set with one ended allocation, and a collector that always finds the disk full.
func endedSet(destroy func(context.Context, *held) error) (*allocSet, *held, *collector) {
	a := &nomad.Allocation{ID: nomad.NewID(), NodeID: nomad.NewID(), Namespace: "default", JobID: "job", Job: &nomad.Job{ID: "job"}}
	h := &held{id: a.ID, alloc: a, endedAt: time.Unix(1, 0), ended: make(chan struct{})}
	close(h.ended)
	s := &allocSet{held: map[string]*held{h.id: h}, gone: map[string]gone{}, undeleted: map[string]removal{}, life: context.Background(),
		log: slog.New(slog.DiscardHandler), destroy: destroy}
	g := &collector{set: s, log: s.log, disk: func(string) (float64, float64, error) { return 100, 100, nil }}
	return s, h, g
}

// Nothing removes the data of an allocation that is held, and nobody can hold one whose removal has begun.
func TestHold(t *testing.T) {
	for name, remove := range map[string]func(s *allocSet, h *held, g *collector){
		"too many":          func(_ *allocSet, _ *held, g *collector) { g.collect() },                      //nolint:errcheck // it removes nothing
		"disk is full":      func(_ *allocSet, _ *held, g *collector) { g.cfg.MaxAllocs = 9; g.collect() }, //nolint:errcheck // it removes nothing
		"all, by a request": func(_ *allocSet, _ *held, g *collector) { g.all() },
		"listed before":     func(_ *allocSet, h *held, g *collector) { g.remove([]*held{h}, "test") },
		"not listed":        func(s *allocSet, _ *held, _ *collector) { s.apply(map[string]uint64{}, nil) },
		"stopped for silence": func(s *allocSet, h *held, _ *collector) {
			if s.condemn(h) {
				go s.remove(h)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				removed := false
				var s *allocSet
				s, h, g := endedSet(func(ctx context.Context, h *held) error {
					if err := s.awaitFree(ctx, h); err != nil {
						return err
					}
					removed = true
					return nil
				})
				_, first, err := s.hold(h.id)
				if err != nil {
					t.Fatal(err)
				}
				_, second, err := s.hold(h.id)
				if err != nil {
					t.Fatal(err)
				}
				remove(s, h, g)
				first()
				first() // releases once
				synctest.Wait()
				if removed {
					t.Error("the data was removed while it was held")
				}
				second()
				synctest.Wait()
				if !removed { // else the removal has waited
					remove(s, h, g)
				}
				if !removed {
					t.Error("the data was not removed after the release")
				}
				if _, _, err := s.hold(h.id); err == nil {
					t.Error("a removed allocation can be held")
				}
			})
		})
	}
}

// A removal that begins first refuses holds.
func TestHoldAfterClaim(t *testing.T) {
	s, h, _ := endedSet(nil)
	if err := s.claim(h); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.hold(h.id); err == nil {
		t.Error("an allocation that is being removed can be held")
	}
	if err := s.claim(h); !errors.Is(err, errRemoving) {
		t.Errorf("claim() = %v, want errRemoving", err)
	}
}

// A request to collect one allocation reports that its data is in use.
func TestCollectHeld(t *testing.T) {
	s, h, _ := endedSet(nil)
	if _, _, err := s.hold(h.id); err != nil {
		t.Fatal(err)
	}
	if err := s.claim(h); !errors.Is(err, errHeld) {
		t.Errorf("claim() = %v, want errHeld", err)
	}
}

// A removal that fails is tried again, and the stored state remains until it succeeds, also if the servers no longer
// list the allocation: the next agent then has it.
func TestRemoveAgain(t *testing.T) {
	db, err := state.Open(state.Config{Dir: t.TempDir(), NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the test is over
	tries := 0
	s, h, _ := endedSet(func(_ context.Context, h *held) error {
		if tries++; tries < 3 {
			return errors.New("device or resource busy")
		}
		return db.DeleteAlloc(h.id)
	})
	s.db = db
	if err := db.PutAlloc(h.alloc); err != nil {
		t.Fatal(err)
	}
	stored := func() int {
		all, errs := db.Allocs()
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return len(all)
	}
	if err := s.claim(h); err != nil {
		t.Fatal(err)
	}
	s.remove(h)
	s.apply(map[string]uint64{}, []*nomad.Allocation{})
	s.removeAgain()
	if n := stored(); tries != 2 || n != 1 {
		t.Errorf("after 2 failures: %d attempts, %d stored allocations; want 2, 1", tries, n)
	}
	s.removeAgain()
	s.removeAgain()
	if n := stored(); tries != 3 || n != 0 || len(s.onDisk()) != 0 {
		t.Errorf("after the success: %d attempts, %d stored, on disk %v; want 3, 0, none", tries, n, s.onDisk())
	}
}
