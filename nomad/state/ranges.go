package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-memdb"
)

// comparableRows is how many written rows of a table a range is put together from. With
// more of them memdb is given what was written, and asked.
const comparableRows = 64

// Get implements reader. A range is read from the state before, and what was written is
// put in its place there.
func (t *txn) Get(table, index string, args ...any) (memdb.ResultIterator, error) {
	if t.overlay == nil || t.overlay.many(table) {
		if err := t.flush(table); err != nil {
			return nil, err
		}
		return t.tx.Get(table, index, args...)
	}
	name, isPrefix := strings.CutSuffix(index, "_prefix")
	k, isKey := args[0].(key)
	if !isPrefix || !isKey {
		return nil, fmt.Errorf("no range is found by %s and %v", index, args)
	}
	before, err := t.overlay.before.Get(table, index, k)
	if err != nil {
		return nil, err
	}
	written, touched := t.overlay.written(table, name, k)
	if !touched {
		return before, nil
	}
	return t.overlay.merged(table, name, before, written), nil
}

// GetReverse implements reader.
func (t *txn) GetReverse(table, index string, args ...any) (memdb.ResultIterator, error) {
	it, err := t.Get(table, index, args...)
	if err != nil {
		return nil, err
	}
	var rows listed
	for row := it.Next(); row != nil; row = it.Next() {
		rows = append(rows, row)
	}
	slices.Reverse(rows)
	return &rows, nil
}

// written returns the rows with a key in an index that begins with k, as they are now, in
// the order of the index, with their keys. Touched says whether the transaction wrote a
// row that is or was among them.
func (o *overlay) written(table, index string, k key) (rows []placed, touched bool) {
	t := o.tables[table]
	if t == nil {
		return nil, false
	}
	for id, row := range t.rows {
		at := o.indexed(table, index, id, row)
		touched = touched || at[0] != nil && bytes.HasPrefix(at[0], k)
		if at[1] != nil && bytes.HasPrefix(at[1], k) {
			rows, touched = append(rows, placed{o.place(index, at[1], id), row.row}), true
		}
	}
	slices.SortFunc(rows, func(a, b placed) int { return bytes.Compare(a.at, b.at) })
	return rows, touched
}

// many says whether a transaction wrote so much to a table that ranges of it are left to
// memdb.
func (o *overlay) many(table string) bool {
	t := o.tables[table]
	return t != nil && len(t.rows) > comparableRows
}

// merged is the range before the transaction without the rows that it wrote, and among
// them those that it wrote, in the order of the index.
func (o *overlay) merged(table, index string, before memdb.ResultIterator, written []placed) *listed {
	rows := o.tables[table].rows
	var out listed
	for row := before.Next(); row != nil; row = before.Next() {
		id := string(o.keyOf(table, primary, row))
		if rows[id] != nil {
			continue
		}
		if len(written) > 0 {
			at := o.place(index, o.keyOf(table, index, row), id)
			for len(written) > 0 && bytes.Compare(written[0].at, at) < 0 {
				out, written = append(out, written[0].row), written[1:]
			}
		}
		out = append(out, row)
	}
	for _, w := range written {
		out = append(out, w.row)
	}
	return &out
}

// listed are rows in order, as a memdb.ResultIterator that nobody watches.
type listed []any

// WatchCh implements memdb.ResultIterator.
func (l *listed) WatchCh() <-chan struct{} { return nil }

// Next implements memdb.ResultIterator.
func (l *listed) Next() any {
	if len(*l) == 0 {
		return nil
	}
	row := (*l)[0]
	*l = (*l)[1:]
	return row
}

// placed is a row and where it is in an index.
type placed struct {
	at  []byte
	row any
}

// place is where memdb has a row in an index: behind its key in an index that may have
// several with the same comes the primary key.
func (o *overlay) place(index string, at []byte, id string) []byte {
	if index == primary {
		return at
	}
	return append(bytes.Clone(at), id...)
}

// indexed returns the keys in an index of a row as it was and as it is, nil where it
// was or is not in it.
func (o *overlay) indexed(table, index, id string, row *rewritten) [2][]byte {
	if known, ok := row.keys[index]; ok {
		return known
	}
	if !row.found {
		var err error
		if row.old, err = o.before.First(table, primary, key(id)); err != nil {
			panic(fmt.Sprintf("state: bug: table %s: %v", table, err))
		}
		row.found = true
	}
	var at [2][]byte
	for i, r := range []any{row.old, row.now()} {
		if r != nil {
			at[i] = o.keyOf(table, index, r)
		}
	}
	if row.keys == nil {
		row.keys = map[string][2][]byte{}
	}
	row.keys[index] = at
	return at
}
