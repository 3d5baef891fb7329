package state

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"
)

// reader is what table reads need of a transaction. The views of a DB and Txn implement it.
type reader interface {
	FirstWatch(table, index string, args ...any) (<-chan struct{}, any, error)
	Get(table, index string, args ...any) (memdb.ResultIterator, error)
	GetReverse(table, index string, args ...any) (memdb.ResultIterator, error)
	LowerBound(table, index string, args ...any) (memdb.ResultIterator, error)
}

// key is the encoded key of one index entry.
type key []byte

// keyOf joins parts and ends each with a NUL, so that no key is accidentally a prefix of another.
func keyOf(parts ...string) key {
	n := 0
	for _, p := range parts {
		n += len(p) + 1
	}
	k := make(key, 0, n)
	for _, p := range parts {
		k = append(append(k, p...), 0)
	}
	return k
}

// prefixOf is keyOf without the final NUL, so that the last part is a prefix.
func prefixOf(parts ...string) key {
	k := keyOf(parts...)
	return k[:len(k)-1]
}

// optional returns the key of part, or nil if part is empty.
func optional(part string) key {
	if part == "" {
		return nil
	}
	return keyOf(part)
}

// number appends n in an order-preserving encoding.
func (k key) number(n uint64) key { return binary.BigEndian.AppendUint64(k, n) }

// primary is the name that memdb requires for the primary index of a table.
const primary = "id"

// index is a secondary index of a table. Rows for which key returns nil are not indexed.
type index[T any] struct {
	name string
	key  func(*T) key
}

// table is the schema of one type of row, with the operations on single rows.
type table[T any] struct {
	name    string
	id      func(*T) key
	indexes []index[T]
	events  bool // a write is added to Txn.Written
}

// schema returns the memdb schema of the table.
func (t *table[T]) schema() *memdb.TableSchema {
	s := &memdb.TableSchema{Name: t.name, Indexes: map[string]*memdb.IndexSchema{
		primary: {Name: primary, Unique: true, Indexer: &indexer[T]{t.id}},
	}}
	for _, ix := range t.indexes {
		s.Indexes[ix.name] = &memdb.IndexSchema{Name: ix.name, AllowMissing: true, Indexer: &indexer[T]{ix.key}}
	}
	return s
}

// get returns the row with the key, or nil if there is none.
func (t *table[T]) get(tx reader, ws memdb.WatchSet, k key) *T {
	ch, raw, err := tx.FirstWatch(t.name, primary, k)
	t.check(err)
	ws.Add(ch)
	if raw == nil {
		return nil
	}
	return raw.(*T)
}

// all returns every row, by primary key.
func (t *table[T]) all(tx reader, ws memdb.WatchSet) iter.Seq[*T] {
	return t.prefixed(tx, ws, primary, nil)
}

// by returns the rows whose key in the named index is k.
func (t *table[T]) by(tx reader, ws memdb.WatchSet, index string, k key) iter.Seq[*T] {
	return t.prefixed(tx, ws, index, k)
}

// prefixed returns the rows whose key in the named index begins with k. The watch is set
// immediately. The result can be iterated several times.
func (t *table[T]) prefixed(tx reader, ws memdb.WatchSet, index string, k key) iter.Seq[*T] {
	if ws != nil {
		it, err := tx.Get(t.name, index+"_prefix", k)
		t.check(err)
		ws.Add(it.WatchCh())
	}
	return func(yield func(*T) bool) {
		it, err := tx.Get(t.name, index+"_prefix", k)
		t.check(err)
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

// from returns the rows whose key in the named index is k or greater.
func (t *table[T]) from(tx reader, index string, k key) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		it, err := tx.LowerBound(t.name, index, k)
		t.check(err)
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

// reversed is prefixed in descending order.
func (t *table[T]) reversed(tx reader, ws memdb.WatchSet, index string, k key) iter.Seq[*T] {
	t.prefixed(tx, ws, index, k)
	return func(yield func(*T) bool) {
		it, err := tx.GetReverse(t.name, index+"_prefix", k)
		t.check(err)
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

// put adds or replaces a row and records that the table changed.
func (t *table[T]) put(tx *Txn, row *T) {
	t.check(tx.Insert(t.name, row))
	tx.touch(t.name)
	if t.events {
		tx.Written = append(tx.Written, Write{Row: row})
	}
}

// load adds a row of a snapshot. It records no change.
func (t *table[T]) load(tx *Txn, row *T) error { return tx.Insert(t.name, row) }

// delete removes a row that get returned.
func (t *table[T]) delete(tx *Txn, row *T) {
	t.check(tx.Delete(t.name, row))
	tx.touch(t.name)
	if t.events {
		tx.Written = append(tx.Written, Write{Row: row, Gone: true})
	}
}

// check panics if memdb rejects a table or index name. Only a bug causes this.
func (t *table[T]) check(err error) {
	if err != nil {
		panic(fmt.Sprintf("table: bug: table %s: %v", t.name, err))
	}
}

// indexer implements the index interfaces of memdb. Its arguments are encoded keys.
type indexer[T any] struct{ key func(*T) key }

// FromObject implements memdb.SingleIndexer.
func (ix *indexer[T]) FromObject(row any) (bool, []byte, error) {
	k := ix.key(row.(*T))
	return k != nil, k, nil
}

// FromArgs implements memdb.Indexer.
func (ix *indexer[T]) FromArgs(args ...any) ([]byte, error) {
	if len(args) == 1 {
		if k, ok := args[0].(key); ok {
			return k, nil
		}
	}
	return nil, fmt.Errorf("want one key, got %v", args)
}

// PrefixFromArgs implements memdb.PrefixIndexer.
func (ix *indexer[T]) PrefixFromArgs(args ...any) ([]byte, error) { return ix.FromArgs(args...) }
