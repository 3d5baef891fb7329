package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/internal/radix"
)

// key is the bytes of one index entry.
type key []byte

// keyOf joins parts, each ended by a NUL, so that no key is a prefix of
// another one by accident.
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

// prefixOf is keyOf with the last part left open.
func prefixOf(parts ...string) key {
	k := keyOf(parts...)
	return k[:len(k)-1]
}

// number adds n in an order-preserving form.
func (k key) number(n uint64) key { return binary.BigEndian.AppendUint64(k, n) }

// primary is the name of the index of a table that has every row, by its own key.
const primary = "id"

// index is one way to find rows of a table. A row for which key returns nil is
// not in the index.
type index[T any] struct {
	name string
	key  func(*T) key
}

// table is the schema of one kind of row and everything that is done to single
// rows. Rules that span tables are methods of txn.
type table[T any] struct {
	name    string
	id      func(*T) key
	indexes []index[T]
	first   int // the place of its trees in a view: by primary key, then by each index
}

// place gives the table its trees from number first on, and returns the next number.
func (t *table[T]) place(first int) int {
	t.first = first
	return first + 1 + len(t.indexes)
}

// title returns the name of the table.
func (t *table[T]) title() string { return t.name }

// number returns the place of the tree of an index.
func (t *table[T]) number(name string) int {
	if name == primary {
		return t.first
	}
	for i := range t.indexes {
		if t.indexes[i].name == name {
			return t.first + 1 + i
		}
	}
	panic(fmt.Sprintf("state: bug: table %s has no index %s", t.name, name))
}

// get returns the row with the key, nil when there is none.
func (t *table[T]) get(tx reader, ws memdb.WatchSet, k key) *T {
	tree := tx.tree(t.first)
	if ws == nil {
		row, _ := tree.Get(k).(*T)
		return row
	}
	found, changed := tree.Watch(k)
	ws.Add(changed)
	row, _ := found.(*T)
	return row
}

// all returns every row, by primary key.
func (t *table[T]) all(tx reader, ws memdb.WatchSet) iter.Seq[*T] {
	return t.prefixed(tx, ws, primary, nil)
}

// by returns the rows whose key in the named index is k.
func (t *table[T]) by(tx reader, ws memdb.WatchSet, index string, k key) iter.Seq[*T] {
	return t.prefixed(tx, ws, index, k)
}

// prefixed returns the rows whose key in the named index begins with k. The
// watch is armed at once, each range over the result begins anew.
func (t *table[T]) prefixed(tx reader, ws memdb.WatchSet, index string, k key) iter.Seq[*T] {
	n := t.number(index)
	if ws != nil {
		ws.Add(tx.tree(n).WatchPrefix(k))
	}
	return t.rows(tx, func() iter.Seq[any] { return tx.tree(n).Ascend(k) })
}

// from returns the rows whose key in the named index is k or greater.
func (t *table[T]) from(tx reader, index string, k key) iter.Seq[*T] {
	n := t.number(index)
	return t.rows(tx, func() iter.Seq[any] { return tx.tree(n).From(k) })
}

// reversed is prefixed in falling order.
func (t *table[T]) reversed(tx reader, ws memdb.WatchSet, index string, k key) iter.Seq[*T] {
	n := t.number(index)
	if ws != nil {
		ws.Add(tx.tree(n).WatchPrefix(k))
	}
	return t.rows(tx, func() iter.Seq[any] { return tx.tree(n).Descend(k) })
}

// rows gives the values of a tree their type. A transaction that writes reads them all
// before it sees the first: its trees change below it.
func (t *table[T]) rows(tx reader, read func() iter.Seq[any]) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		all := read()
		if _, writes := tx.(*txn); writes {
			all = slices.Values(slices.Collect(all))
		}
		for row := range all {
			if !yield(row.(*T)) {
				return
			}
		}
	}
}

// put adds or replaces a row and records that the table changed.
func (t *table[T]) put(tx *txn, row *T) {
	id := t.id(row)
	var old *T
	if len(t.indexes) > 0 {
		old = t.get(tx, nil, id)
	}
	tx.set(t.first, id, row)
	for i := range t.indexes {
		k := t.indexes[i].key(row)
		if old != nil {
			if was := t.indexes[i].key(old); was != nil && !bytes.Equal(was, k) {
				tx.unset(t.first+1+i, tx.joined(was, id))
			}
		}
		if k != nil {
			tx.set(t.first+1+i, tx.joined(k, id), row)
		}
	}
	tx.touch(t.name)
}

// delete removes a row that get has returned.
func (t *table[T]) delete(tx *txn, row *T) {
	id := t.id(row)
	tx.unset(t.first, id)
	for i := range t.indexes {
		if k := t.indexes[i].key(row); k != nil {
			tx.unset(t.first+1+i, tx.joined(k, id))
		}
	}
	tx.touch(t.name)
}

// reader is what tables are read through: a view that never changes, or a
// transaction that sees what it has written itself.
type reader interface {
	tree(number int) radix.Tree
}
