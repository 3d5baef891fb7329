package state

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// What a transaction reads is the same whether it is answered by the overlay or by
// memdb, whatever was written, moved to another key of an index, and removed before.
func TestReadsOfWrittenRows(t *testing.T) {
	fromBefore, fromMemdb := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := New(slog.New(slog.DiscardHandler))
		some := func(kind string) string { return fmt.Sprint(kind, r.IntN(8)) }
		for range 12 {
			_, err := s.write(s.LatestIndex()+1, func(tx *txn) error {
				for range r.IntN(100) {
					if known := evals.get(tx, nil, keyOf(some("eval"))); known != nil && r.IntN(3) == 0 {
						evals.delete(tx, known)
					} else {
						evals.put(tx, &nomad.Evaluation{ID: some("eval") + some("")[:r.IntN(2)], Namespace: "default", JobID: some("job"), Priority: r.Int()})
					}
					for _, k := range []key{keyOf("default", some("job")), nil, prefixOf("de")} {
						if tx.source(TableEvals, "job_prefix", []any{k}) == tx.Txn {
							fromMemdb++
						} else {
							fromBefore++
						}
						sameRows(t, tx, TableEvals, "job_prefix", k)
					}
					k := keyOf(some("eval"))
					_, want, err := tx.Txn.FirstWatch(TableEvals, primary, k)
					if err != nil {
						return err
					}
					if got := evals.get(tx, nil, k); want == nil && got != nil || want != nil && got != want {
						t.Fatalf("%s is %v, in memdb %v", k, got, want)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if fromBefore < 1000 || fromMemdb < 1000 {
		t.Errorf("%d ranges were read from the state before, %d from memdb: too few to say anything", fromBefore, fromMemdb)
	}
}

// sameRows compares a range in both directions with that of memdb.
func sameRows(t *testing.T, tx *txn, table, index string, k key) {
	t.Helper()
	for name, read := range map[string][2]func(string, string, ...any) (memdb.ResultIterator, error){
		"forwards": {tx.Get, tx.Txn.Get}, "backwards": {tx.GetReverse, tx.Txn.GetReverse}} {
		var rows [2][]any
		for i, from := range read {
			it, err := from(table, index, k)
			if err != nil {
				t.Fatal(err)
			}
			for row := it.Next(); row != nil; row = it.Next() {
				rows[i] = append(rows[i], row)
			}
		}
		if !slices.Equal(rows[0], rows[1]) { // pointers
			t.Fatalf("%s, %d rows begin with %q, in memdb %d", name, len(rows[0]), k, len(rows[1]))
		}
	}
}
