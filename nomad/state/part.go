package state

import (
	"iter"

	"github.com/hashicorp/go-memdb"
)

// part is a table whose rows live in those of another, beside rows of other parts with
// the same key. What is written together costs one row then: each tree of memdb copies
// the way to a row that changes. Who watches one part is woken by the others too.
type part[R, T any] struct {
	name string
	in   *table[R]
	of   func(*R) **T
	make func(*T) *R // a row of only this
	told bool        // events tell of its rows
}

// get returns the row with the key, nil when there is none.
func (p *part[R, T]) get(tx reader, ws memdb.WatchSet, k key) *T {
	if row := p.in.get(tx, ws, k); row != nil {
		return *p.of(row)
	}
	return nil
}

// all returns every row, by primary key.
func (p *part[R, T]) all(tx reader, ws memdb.WatchSet) iter.Seq[*T] {
	return p.prefixed(tx, ws, primary, nil)
}

// by returns the rows whose key in the named index is k.
func (p *part[R, T]) by(tx reader, ws memdb.WatchSet, index string, k key) iter.Seq[*T] {
	return p.prefixed(tx, ws, index, k)
}

// prefixed is that of a table.
func (p *part[R, T]) prefixed(tx reader, ws memdb.WatchSet, index string, k key) iter.Seq[*T] {
	rows := p.in.prefixed(tx, ws, index, k)
	return func(yield func(*T) bool) {
		for row := range rows {
			if v := *p.of(row); v != nil && !yield(v) {
				return
			}
		}
	}
}

// put adds or replaces a row and records that the table changed.
func (p *part[R, T]) put(tx *txn, v *T) {
	fresh := p.make(v)
	row := p.in.own(tx, p.in.id(fresh))
	if row == nil {
		row = fresh
	}
	*p.of(row) = v
	p.write(tx, row, Write{Row: v})
}

// delete removes a row that get has returned.
func (p *part[R, T]) delete(tx *txn, v *T) {
	row := p.in.own(tx, p.in.id(p.make(v)))
	if row == nil {
		return
	}
	*p.of(row) = nil
	p.write(tx, row, Write{Row: v, Gone: true})
}

// write stores a row that was changed as w says, or removes it when nothing is left.
func (p *part[R, T]) write(tx *txn, row *R, w Write) {
	p.in.write(tx, row)
	tx.touch(p.name)
	if p.told {
		tx.changes.note(w)
	}
}
