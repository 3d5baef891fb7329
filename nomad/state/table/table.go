package table

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"
)

// Reader has the methods of a transaction that reads use. The views of a DB and Txn implement it.
type Reader interface {
	FirstWatch(table, index string, args ...any) (<-chan struct{}, any, error)
	Get(table, index string, args ...any) (memdb.ResultIterator, error)
	GetReverse(table, index string, args ...any) (memdb.ResultIterator, error)
	LowerBound(table, index string, args ...any) (memdb.ResultIterator, error)
}

// Key is the encoded key of one index entry.
type Key []byte

// KeyOf joins parts and ends each with a NUL, so that no key is accidentally a prefix of another.
func KeyOf(parts ...string) Key {
	n := 0
	for _, p := range parts {
		n += len(p) + 1
	}
	k := make(Key, 0, n)
	for _, p := range parts {
		k = append(append(k, p...), 0)
	}
	return k
}

// PrefixOf is KeyOf without the final NUL, so that the last part is a prefix.
func PrefixOf(parts ...string) Key {
	k := KeyOf(parts...)
	return k[:len(k)-1]
}

// Optional returns KeyOf(part), or nil if part is empty.
func Optional(part string) Key {
	if part == "" {
		return nil
	}
	return KeyOf(part)
}

// Number appends n in an order-preserving encoding.
func (k Key) Number(n uint64) Key { return binary.BigEndian.AppendUint64(k, n) }

// Primary is the name that memdb requires for the primary index of a table.
const Primary = "id"

// Index is a secondary index of a table. Rows for which Key returns nil are not indexed.
type Index[T any] struct {
	Name string
	Key  func(*T) Key
	// Keys replaces Key for rows that have several different keys.
	Keys func(*T) []Key
}

// indexer returns the indexer of memdb.
func (ix *Index[T]) indexer() memdb.Indexer {
	if ix.Keys != nil {
		return &multiIndexer[T]{Keys: ix.Keys}
	}
	return &indexer[T]{Key: ix.Key}
}

// Table is the schema of one type of row, with the operations on single rows.
type Table[T any] struct {
	Name    string
	ID      func(*T) Key
	Indexes []Index[T]
	Events  bool // a write is added to Txn.Written
}

// Schema returns the memdb schema of the table.
func (t *Table[T]) Schema() *memdb.TableSchema {
	s := &memdb.TableSchema{Name: t.Name, Indexes: map[string]*memdb.IndexSchema{
		Primary: {Name: Primary, Unique: true, Indexer: &indexer[T]{Key: t.ID}},
	}}
	for _, ix := range t.Indexes {
		s.Indexes[ix.Name] = &memdb.IndexSchema{Name: ix.Name, AllowMissing: true, Indexer: ix.indexer()}
	}
	return s
}

// Get returns the row with the key, or nil if there is none.
func (t *Table[T]) Get(tx Reader, ws memdb.WatchSet, k Key) *T {
	ch, raw, err := tx.FirstWatch(t.Name, Primary, k)
	t.check(err)
	ws.Add(ch)
	if raw == nil {
		return nil
	}
	return raw.(*T)
}

// All returns every row, by primary key.
func (t *Table[T]) All(tx Reader, ws memdb.WatchSet) iter.Seq[*T] {
	return t.Prefixed(tx, ws, Primary, nil)
}

// By returns the rows whose key in the named index is k.
func (t *Table[T]) By(tx Reader, ws memdb.WatchSet, index string, k Key) iter.Seq[*T] {
	return t.Prefixed(tx, ws, index, k)
}

// Prefixed returns the rows whose key in the named index begins with k. The watch is set
// immediately. The result can be iterated several times.
func (t *Table[T]) Prefixed(tx Reader, ws memdb.WatchSet, index string, k Key) iter.Seq[*T] {
	if ws != nil {
		it, err := tx.Get(t.Name, index+"_prefix", k)
		t.check(err)
		ws.Add(it.WatchCh())
	}
	return func(yield func(*T) bool) {
		it, err := tx.Get(t.Name, index+"_prefix", k)
		t.check(err)
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

// From returns the rows whose key in the named index is k or greater.
func (t *Table[T]) From(tx Reader, index string, k Key) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		it, err := tx.LowerBound(t.Name, index, k)
		t.check(err)
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

// Reversed is Prefixed in descending order.
func (t *Table[T]) Reversed(tx Reader, ws memdb.WatchSet, index string, k Key) iter.Seq[*T] {
	t.Prefixed(tx, ws, index, k)
	return func(yield func(*T) bool) {
		it, err := tx.GetReverse(t.Name, index+"_prefix", k)
		t.check(err)
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

// Put adds or replaces a row and records that the table changed.
func (t *Table[T]) Put(tx *Txn, row *T) {
	t.check(tx.Insert(t.Name, row))
	tx.touch(t.Name)
	if t.Events {
		tx.Written = append(tx.Written, Write{Row: row})
	}
}

// Load adds a row of a snapshot. It records no change.
func (t *Table[T]) Load(tx *Txn, row *T) error { return tx.Insert(t.Name, row) }

// Delete removes a row that Get returned.
func (t *Table[T]) Delete(tx *Txn, row *T) {
	t.check(tx.Delete(t.Name, row))
	tx.touch(t.Name)
	if t.Events {
		tx.Written = append(tx.Written, Write{Row: row, Deleted: true})
	}
}

// check panics if memdb rejects a table or index name. Only a bug causes this.
func (t *Table[T]) check(err error) {
	if err != nil {
		panic(fmt.Sprintf("table: bug: table %s: %v", t.Name, err))
	}
}

// indexer implements the index interfaces of memdb.
type indexer[T any] struct {
	arguments
	Key func(*T) Key
}

// FromObject implements memdb.SingleIndexer.
func (ix *indexer[T]) FromObject(row any) (bool, []byte, error) {
	k := ix.Key(row.(*T))
	return k != nil, k, nil
}

// multiIndexer implements the index interfaces of memdb for rows with several keys.
type multiIndexer[T any] struct {
	arguments
	Keys func(*T) []Key
}

// FromObject implements memdb.MultiIndexer.
func (ix *multiIndexer[T]) FromObject(row any) (bool, [][]byte, error) {
	var out [][]byte
	for _, k := range ix.Keys(row.(*T)) {
		out = append(out, k)
	}
	return len(out) > 0, out, nil
}

// arguments are those of the reads of an index: one encoded key.
type arguments struct{}

// FromArgs implements memdb.Indexer.
func (arguments) FromArgs(args ...any) ([]byte, error) {
	if len(args) == 1 {
		if k, ok := args[0].(Key); ok {
			return k, nil
		}
	}
	return nil, fmt.Errorf("expected one key, got %v", args)
}

// PrefixFromArgs implements memdb.PrefixIndexer.
func (a arguments) PrefixFromArgs(args ...any) ([]byte, error) { return a.FromArgs(args...) }
