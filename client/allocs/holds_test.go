package allocs

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
func endedSet(destroy func(context.Context, *Entry) error) (*Set, *Entry, *collector) {
	a := &nomad.Allocation{ID: nomad.NewID(), NodeID: nomad.NewID(), Namespace: "default", JobID: "job", Job: &nomad.Job{ID: "job"}}
	e := &Entry{ID: a.ID, alloc: a, endedAt: time.Unix(1, 0), ended: make(chan struct{})}
	close(e.ended)
	s := &Set{entries: map[string]*Entry{e.ID: e}, gone: map[string]gone{}, undeleted: map[string]removal{}, life: context.Background(),
		log: slog.New(slog.DiscardHandler), destroy: destroy}
	g := &collector{set: s, log: s.log, disk: func(string) (float64, float64, error) { return 100, 100, nil }}
	s.collector = g
	return s, e, g
}

// Nothing removes the data of an allocation that is in use, and nobody can hold one whose removal has begun.
func TestHold(t *testing.T) {
	for name, remove := range map[string]func(s *Set, e *Entry, g *collector){
		"too many":          func(_ *Set, _ *Entry, g *collector) { g.collect() },                      //nolint:errcheck // it removes nothing
		"disk is full":      func(_ *Set, _ *Entry, g *collector) { g.cfg.MaxAllocs = 9; g.collect() }, //nolint:errcheck // it removes nothing
		"all, by a request": func(_ *Set, _ *Entry, g *collector) { g.set.CollectAll() },
		"listed before":     func(_ *Set, e *Entry, g *collector) { g.remove([]*Entry{e}, "test") },
		"not listed":        func(s *Set, _ *Entry, _ *collector) { s.apply(map[string]uint64{}, nil) },
		"node is disconnected": func(s *Set, e *Entry, _ *collector) {
			if s.markRemoving(e) {
				go s.remove(e)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				removed := false
				var s *Set
				s, e, g := endedSet(func(ctx context.Context, e *Entry) error {
					if err := s.awaitFree(ctx, e); err != nil {
						return err
					}
					removed = true
					return nil
				})
				_, first, err := s.hold(e.ID)
				if err != nil {
					t.Fatal(err)
				}
				_, second, err := s.hold(e.ID)
				if err != nil {
					t.Fatal(err)
				}
				remove(s, e, g)
				first()
				first() // releases once
				synctest.Wait()
				if removed {
					t.Error("the data was removed while it was in use")
				}
				second()
				synctest.Wait()
				if !removed { // else the removal has waited
					remove(s, e, g)
				}
				if !removed {
					t.Error("the data was not removed after the release")
				}
				if _, _, err := s.hold(e.ID); err == nil {
					t.Error("a removed allocation can be held")
				}
			})
		})
	}
}

// A removal that begins first refuses holds.
func TestHold_AfterClaim(t *testing.T) {
	s, e, _ := endedSet(nil)
	if err := s.claim(e); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.hold(e.ID); err == nil {
		t.Error("an allocation that is being removed can be held")
	}
	if err := s.claim(e); !errors.Is(err, errRemoving) {
		t.Errorf("claim() = %v, want errRemoving", err)
	}
}

// A removal cannot be claimed while the data is in use.
func TestClaim_InUse(t *testing.T) {
	s, e, _ := endedSet(nil)
	if _, _, err := s.hold(e.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.claim(e); !errors.Is(err, errInUse) {
		t.Errorf("claim() = %v, want errInUse", err)
	}
}

// A removal that fails is tried again, and the stored state remains until it succeeds, also if the servers no longer
// list the allocation: the next agent then has it.
func TestRemove_Again(t *testing.T) {
	db, err := state.Open(state.Config{Dir: t.TempDir(), NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the test is over
	tries := 0
	s, e, _ := endedSet(func(_ context.Context, e *Entry) error {
		if tries++; tries < 3 {
			return errors.New("device or resource busy")
		}
		return db.DeleteAlloc(e.ID)
	})
	s.db = db
	if err := db.PutAlloc(e.alloc); err != nil {
		t.Fatal(err)
	}
	stored := func() int {
		all, errs := db.Allocs()
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return len(all)
	}
	if err := s.claim(e); err != nil {
		t.Fatal(err)
	}
	s.remove(e)
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
