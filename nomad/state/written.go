package state

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hashicorp/go-memdb"
)

// reader is what tables are read through: a view that never changes, or a
// transaction that sees what it has written itself.
type reader interface {
	FirstWatch(table, index string, args ...any) (<-chan struct{}, any, error)
	Get(table, index string, args ...any) (memdb.ResultIterator, error)
	GetReverse(table, index string, args ...any) (memdb.ResultIterator, error)
	LowerBound(table, index string, args ...any) (memdb.ResultIterator, error)
}

// comparableRows is how many written rows of a table a range is compared with.
const comparableRows = 64

// overlay remembers what a transaction wrote, so that most of its reads are answered
// by the state before it. memdb clones a tree that is read after it was written to in
// the same transaction, and forgets then which nodes the transaction owns: the next
// write copies all of its path again, which makes many entries in one transaction as
// dear as one by one.
type overlay struct {
	before *memdb.Txn // the state that the transaction began with
	schema *memdb.DBSchema
	rows   map[string]map[string]*rewritten // by table and primary key
}

// rewritten is a row as the transaction found it, once it was looked up, and as it is
// now; nil when there is none.
type rewritten struct {
	old, now any
	found    bool // old was looked up
}

// overlay begins to remember; nothing was written yet.
func (s *Store) overlay() *overlay {
	return &overlay{before: s.db.Txn(false), schema: s.schema, rows: map[string]map[string]*rewritten{}}
}

// keyOf returns the key of a row in an index, nil when it is not in it.
func (o *overlay) keyOf(table, index string, row any) []byte {
	ix, ok := o.schema.Tables[table].Indexes[index].Indexer.(memdb.SingleIndexer)
	if !ok {
		panic(fmt.Sprintf("state: bug: index %s of table %s has several keys", index, table))
	}
	_, k, err := ix.FromObject(row)
	if err != nil {
		panic(fmt.Sprintf("state: bug: index %s of table %s: %v", index, table, err))
	}
	return k
}

// note remembers that a row was written, or removed when now is nil.
func (o *overlay) note(table string, row, now any) {
	k := o.keyOf(table, primary, row)
	rows := o.rows[table]
	if rows == nil {
		rows = map[string]*rewritten{}
		o.rows[table] = rows
	}
	if was := rows[string(k)]; was != nil {
		was.now = now
	} else {
		rows[string(k)] = &rewritten{now: now}
	}
}

// same says whether the rows whose key in an index begins with k are what they were.
func (o *overlay) same(table, index string, k key) bool {
	rows := o.rows[table]
	if len(rows) > comparableRows {
		return false
	}
	for id, row := range rows {
		if !row.found {
			var err error
			if row.old, err = o.before.First(table, primary, key(id)); err != nil {
				panic(fmt.Sprintf("state: bug: table %s: %v", table, err))
			}
			row.found = true
		}
		if o.within(table, index, row.old, k) || o.within(table, index, row.now, k) {
			return false
		}
	}
	return true
}

// within says whether there is a row and its key in an index begins with k.
func (o *overlay) within(table, index string, row any, k key) bool {
	if row == nil {
		return false
	}
	at := o.keyOf(table, index, row)
	return at != nil && bytes.HasPrefix(at, k)
}

// Insert writes a row.
func (t *txn) Insert(table string, row any) error {
	if t.overlay != nil {
		t.overlay.note(table, row, row)
	}
	return t.Txn.Insert(table, row)
}

// Delete removes a row.
func (t *txn) Delete(table string, row any) error {
	if t.overlay != nil {
		t.overlay.note(table, row, nil)
	}
	return t.Txn.Delete(table, row)
}

// FirstWatch implements reader. Tables are read so by their primary keys only.
func (t *txn) FirstWatch(table, index string, args ...any) (<-chan struct{}, any, error) {
	if t.overlay == nil {
		return t.Txn.FirstWatch(table, index, args...)
	}
	k, isKey := args[0].(key)
	if !isKey || index != primary {
		return nil, nil, fmt.Errorf("no single row is found by %s and %v", index, args)
	}
	if row := t.overlay.rows[table][string(k)]; row != nil {
		return nil, row.now, nil
	}
	return t.overlay.before.FirstWatch(table, index, k)
}

// Get implements reader.
func (t *txn) Get(table, index string, args ...any) (memdb.ResultIterator, error) {
	return t.source(table, index, args).Get(table, index, args...)
}

// GetReverse implements reader.
func (t *txn) GetReverse(table, index string, args ...any) (memdb.ResultIterator, error) {
	return t.source(table, index, args).GetReverse(table, index, args...)
}

// source is where a range is read from: the state before the transaction, as long as
// nothing of that range was written.
func (t *txn) source(table, index string, args []any) *memdb.Txn {
	name, isPrefix := strings.CutSuffix(index, "_prefix")
	k, isKey := args[0].(key)
	if t.overlay == nil || !isPrefix || !isKey || !t.overlay.same(table, name, k) {
		return t.Txn
	}
	return t.overlay.before
}
