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

// plainly begins a transaction that gives memdb each row at once and reads from it.
func (s *Store) plainly(index uint64) *txn {
	return &txn{tx: s.db.Txn(true), index: index}
}

// What a transaction reads is the same whether it is answered by the overlay or by
// memdb, whatever was written, moved to another key of an index, and removed before;
// and so is what it leaves.
func TestReadsOfWrittenRows(t *testing.T) {
	fromBefore, merged, fromMemdb := 0, 0, 0
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 7))
		s, other := New(slog.New(slog.DiscardHandler)), New(slog.New(slog.DiscardHandler))
		some := func(kind string) string { return fmt.Sprint(kind, r.IntN(12)) }
		for range 12 {
			plain := other.plainly(s.LatestIndex() + 1)
			_, err := s.write(s.LatestIndex()+1, func(tx *txn) error {
				for range r.IntN(250) {
					if known := deployments.get(tx, nil, keyOf(some("deployment"))); known != nil && r.IntN(3) == 0 {
						deployments.delete(tx, known)
						deployments.delete(plain, known)
					} else {
						d := &nomad.Deployment{ID: some("deployment") + some("")[:r.IntN(2)], Namespace: "default", JobID: some("job"), JobVersion: r.Uint64()}
						deployments.put(tx, d)
						deployments.put(plain, d)
					}
					if k := keyOf(some("deployment")); deployments.get(tx, nil, k) != deployments.get(plain, nil, k) {
						t.Fatalf("%s is %v, in memdb %v", k, deployments.get(tx, nil, k), deployments.get(plain, nil, k))
					}
					if r.IntN(4) > 0 {
						continue // several writes, then reads
					}
					for _, k := range []key{keyOf("default", some("job")), nil, prefixOf("de")} {
						switch _, touched := tx.overlay.written(TableDeployment, "job", k); {
						case tx.overlay.many(TableDeployment):
							fromMemdb++
						case touched:
							merged++
						default:
							fromBefore++
						}
						sameRows(t, tx, plain, "job_prefix", k)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			plain.Commit()
			sameRows(t, s.Snapshot().tx, other.Snapshot().tx, "job_prefix", nil)
			sameRows(t, s.Snapshot().tx, other.Snapshot().tx, "id_prefix", nil)
		}
	}
	if min(fromBefore, merged, fromMemdb) < 100 {
		t.Errorf("%d ranges were read from the state before, %d with what was written, %d from memdb: too few to say anything", fromBefore, merged, fromMemdb)
	}
}

// sameRows compares a range of deployments in both directions.
func sameRows(t *testing.T, a, b reader, index string, k key) {
	t.Helper()
	for name, read := range map[string][2]func(string, string, ...any) (memdb.ResultIterator, error){
		"forwards": {a.Get, b.Get}, "backwards": {a.GetReverse, b.GetReverse}} {
		var rows [2][]any
		for i, from := range read {
			it, err := from(TableDeployment, index, k)
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
