package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// linked returns the objects with their current links to other objects, as link returns them.
func linked[T any](ws memdb.WatchSet, all iter.Seq[*T], link func(memdb.WatchSet, *T) *T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for o := range all {
			if !yield(link(ws, o)) {
				return
			}
		}
	}
}

// deleteAll removes the rows with the IDs. If one of them does not exist, it returns the error
// missing with its ID.
func deleteAll[T any](t *txn, from *table.Table[T], ids []string, missing error) error {
	for _, id := range ids {
		row := from.Get(t, nil, table.KeyOf(id))
		if row == nil {
			return fmt.Errorf("%w: %s", missing, id)
		}
		from.Delete(t.Txn, row)
	}
	return nil
}
