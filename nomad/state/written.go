package state

import (
	"bytes"
	"errors"
	"fmt"

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

// overlay holds what a transaction writes until it commits, so that a row that several
// entries write goes to memdb once, and answers its reads by the state before it and by
// what was written. memdb clones a tree that is read after it was written to in the same
// transaction, and forgets then which nodes the transaction owns: the next write copies
// all of its path again, which makes many entries in one transaction as dear as one by
// one.
type overlay struct {
	before *memdb.Txn // the state that the transaction began with
	schema *memdb.DBSchema
	tables map[string]*writtenRows
}

// writtenRows are the rows of one table that a transaction wrote, and one that it read.
type writtenRows struct {
	rows    map[string]*rewritten // by primary key
	waiting []*rewritten          // for memdb

	// What was read last and not written: a job, its namespace and its node pool are asked
	// for again and again.
	asked  key
	answer any
}

// rewritten is a row that a transaction wrote.
type rewritten struct {
	row   any                  // as it was written last, or removed
	gone  bool                 // it was removed
	waits bool                 // for memdb: until then the row belongs to the transaction alone
	old   any                  // as the transaction found it, nil when there was none
	found bool                 // old was looked up
	keys  map[string][2][]byte // in indexes, of old and of what it is now
}

// now returns the row as the transaction sees it, nil when there is none.
func (r *rewritten) now() any {
	if r.gone {
		return nil
	}
	return r.row
}

// overlay begins to remember; nothing was written yet.
func (s *Store) overlay() *overlay {
	return &overlay{before: s.db.Txn(false), schema: s.schema, tables: map[string]*writtenRows{}}
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

// note remembers that a row was written, or removed.
func (o *overlay) note(table string, row any, gone bool) {
	k := o.keyOf(table, primary, row)
	t := o.table(table)
	if t.rows == nil {
		t.rows = map[string]*rewritten{}
	}
	r := t.rows[string(k)]
	if r == nil {
		r = &rewritten{}
		t.rows[string(k)] = r
	}
	r.row, r.gone, r.keys = row, gone, nil
	if !r.waits {
		r.waits = true
		t.waiting = append(t.waiting, r)
	}
}

// table returns what is remembered of a table.
func (o *overlay) table(name string) *writtenRows {
	t := o.tables[name]
	if t == nil {
		t = &writtenRows{}
		o.tables[name] = t
	}
	return t
}

// first returns the row with the primary key as it was before the transaction.
func (o *overlay) first(table string, k key) (any, error) {
	t := o.table(table)
	if t.asked == nil || !bytes.Equal(t.asked, k) {
		row, err := o.before.First(table, primary, k)
		if err != nil {
			return nil, err
		}
		t.asked, t.answer = k, row
	}
	return t.answer, nil
}

// find returns what the transaction did to a row, nil for nothing.
func (o *overlay) find(table string, k key) *rewritten {
	if t := o.tables[table]; t != nil {
		return t.rows[string(k)]
	}
	return nil
}

// flush gives memdb what a table waits with.
func (t *txn) flush(table string) error {
	if t.overlay == nil || t.overlay.tables[table] == nil {
		return nil
	}
	rows := t.overlay.tables[table]
	for _, r := range rows.waiting {
		r.waits = false
		var err error
		if !r.gone {
			err = t.tx.Insert(table, r.row)
		} else if err = t.tx.Delete(table, r.row); errors.Is(err, memdb.ErrNotFound) {
			err = nil // written and removed by this transaction
		}
		if err != nil {
			return err
		}
	}
	rows.waiting = nil
	return nil
}

// Commit makes visible what was written.
func (t *txn) Commit() {
	if t.overlay != nil {
		for table := range t.overlay.tables {
			if err := t.flush(table); err != nil {
				panic(fmt.Sprintf("state: bug: table %s: %v", table, err))
			}
		}
	}
	t.tx.Commit()
}

// Abort forgets what was written, unless it was committed.
func (t *txn) Abort() { t.tx.Abort() }

// Insert writes a row.
func (t *txn) Insert(table string, row any) error {
	if t.overlay == nil {
		return t.tx.Insert(table, row)
	}
	t.overlay.note(table, row, false)
	return nil
}

// Delete removes a row.
func (t *txn) Delete(table string, row any) error {
	if t.overlay == nil {
		return t.tx.Delete(table, row)
	}
	t.overlay.note(table, row, true)
	return nil
}

// FirstWatch implements reader. Tables are read so by their primary keys only, and who
// writes watches nothing.
func (t *txn) FirstWatch(table, index string, args ...any) (<-chan struct{}, any, error) {
	if t.overlay == nil {
		return t.tx.FirstWatch(table, index, args...)
	}
	k, isKey := args[0].(key)
	if !isKey || index != primary {
		return nil, nil, fmt.Errorf("no single row is found by %s and %v", index, args)
	}
	if r := t.overlay.find(table, k); r != nil {
		return nil, r.now(), nil
	}
	row, err := t.overlay.first(table, k)
	return nil, row, err
}

// LowerBound implements reader.
func (t *txn) LowerBound(table, index string, args ...any) (memdb.ResultIterator, error) {
	if err := t.flush(table); err != nil {
		return nil, err
	}
	return t.tx.LowerBound(table, index, args...)
}
