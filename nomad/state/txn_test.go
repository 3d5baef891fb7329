package state

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// rowsOf returns what a table of evaluations must hold, by job, then by ID.
func rowsOf(m map[string]*nomad.Evaluation, job string) []*nomad.Evaluation {
	out := slices.Collect(maps.Values(m))
	out = slices.DeleteFunc(out, func(e *nomad.Evaluation) bool { return !strings.HasPrefix(e.JobID, job) })
	slices.SortFunc(out, func(a, b *nomad.Evaluation) int {
		return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// sameEvals compares what is read with what must be there.
func sameEvals(t *testing.T, tx reader, m map[string]*nomad.Evaluation, id, job string) {
	t.Helper()
	if got := evals.get(tx, nil, keyOf(id)); got != m[id] {
		t.Fatalf("%s is %v, want %v", id, got, m[id])
	}
	for _, job := range []string{job, ""} {
		want := rowsOf(m, job)
		if got := slices.Collect(evals.prefixed(tx, nil, "job", prefixOf("default", job))); !slices.Equal(got, want) {
			t.Fatalf("of job %q there are %v, want %v", job, got, want)
		}
		slices.Reverse(want)
		if got := slices.Collect(evals.reversed(tx, nil, "job", prefixOf("default", job))); !slices.Equal(got, want) {
			t.Fatalf("of job %q there are, falling, %v, want %v", job, got, want)
		}
	}
}

// What a transaction reads is what it wrote over what was there, whatever was written,
// moved to another key of an index, and removed before; what others read is what was
// there, until it ends well.
func TestTransactionsOfRows(t *testing.T) {
	errGivenUp := errors.New("given up")
	failed := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := New(slog.New(slog.DiscardHandler))
		some := func(kind string) string { return fmt.Sprint(kind, r.IntN(12)) }
		m := map[string]*nomad.Evaluation{}
		for range 12 {
			was, before := maps.Clone(m), s.Snapshot()
			_, err := s.write(s.LatestIndex()+1, func(tx *txn) error {
				for range r.IntN(50) {
					e := &nomad.Evaluation{ID: some("eval") + some("")[:r.IntN(2)], Namespace: "default", JobID: some("job"), Priority: r.Int()}
					if known := m[e.ID]; known != nil && r.IntN(3) == 0 {
						evals.delete(tx, known)
						delete(m, e.ID)
					} else {
						evals.put(tx, e)
						m[e.ID] = e
					}
					sameEvals(t, tx, m, some("eval"), some("job"))
				}
				for e := range evals.all(tx, nil) { // a range sees nothing of what is written meanwhile
					evals.delete(tx, e)
					evals.put(tx, &nomad.Evaluation{ID: e.ID + "-again", Namespace: "default", JobID: e.JobID})
					evals.delete(tx, evals.get(tx, nil, keyOf(e.ID+"-again")))
					evals.put(tx, e)
				}
				sameEvals(t, s.Snapshot().tx, was, some("eval"), some("job"))
				if r.IntN(4) == 0 {
					return errGivenUp
				}
				return nil
			})
			if err != nil {
				failed++
				m = was
			}
			sameEvals(t, before.tx, was, some("eval"), some("job"))
			sameEvals(t, s.Snapshot().tx, m, some("eval"), some("job"))
		}
	}
	if failed < 100 {
		t.Errorf("%d transactions failed: too few to say anything", failed)
	}
}

// Entries that are written together have each its own index, and leave nothing when
// one of them fails.
func TestTogether(t *testing.T) {
	s := New(slog.New(slog.DiscardHandler))
	put := func(index uint64, id string) error {
		_, err := s.UpsertNamespaces(index, &nomad.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: id}}})
		return err
	}
	if s.Together(8, func() bool { return put(7, "a") == nil && false }) || s.Snapshot().Namespace(nil, "a") != nil || s.LatestIndex() != 1 {
		t.Error("entries that failed left something")
	}
	done := s.Together(9, func() bool {
		if put(7, "b") != nil || put(8, "c") != nil {
			return false
		}
		if _, err := s.UpsertEvals(9, &nomad.EvalUpdateRequest{Evals: []*nomad.Evaluation{{ID: "e"}}}); err != nil {
			return false
		}
		return s.Snapshot().Namespace(nil, "b") == nil
	})
	snap := s.Snapshot()
	if !done || snap.Index() != 9 || snap.Namespace(nil, "b").ModifyIndex != 7 || snap.Namespace(nil, "c").ModifyIndex != 8 {
		t.Errorf("together: %v, at %d there are %v and %v", done, snap.Index(), snap.Namespace(nil, "b"), snap.Namespace(nil, "c"))
	}
	if ns, ev := snap.TableIndex(TableNamespaces), snap.TableIndex(TableEvals); ns != 8 || ev != 9 {
		t.Errorf("tables changed at %d and %d, want 8 and 9", ns, ev)
	}
}
