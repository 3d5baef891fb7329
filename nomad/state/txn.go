package state

import (
	"slices"

	"github.com/open-nomad/open-nomad/internal/radix"
	"github.com/open-nomad/open-nomad/nomad"
)

// view is one version of the trees of all tables.
type view []radix.Tree

// tree implements reader.
func (v view) tree(number int) radix.Tree { return v[number] }

// edit is a transaction, of one log entry or of several: each sees what those before
// it did, others see all of it or nothing. What it has copied to write to it writes to
// again, so that entries in one transaction share the cost of what they have in common.
type edit struct {
	store   *Store
	view    view // its own
	nodes   *radix.Edit
	touched map[string]uint64 // tables, and the entry that was the last to change them
	scratch []byte
	ended   bool
}

// begin waits for its turn to write.
func (s *Store) begin() *edit {
	s.writer.Lock()
	return &edit{store: s, view: slices.Clone(*s.now.Load()), nodes: radix.Begin(), touched: map[string]uint64{}}
}

// end gives up what was not committed.
func (e *edit) end() {
	if !e.ended {
		e.ended = true
		e.store.writer.Unlock()
	}
}

// commit shows what was written, with the index at which each table changed, and
// wakes those who wait for it.
func (e *edit) commit() {
	for name, index := range e.touched {
		(&txn{edit: e, index: index}).noteIndex(name)
	}
	e.store.now.Store(&e.view)
	e.nodes.Tell()
	e.end()
}

// apply runs fn as one log entry. What it wrote before it failed must not be committed.
func (e *edit) apply(index uint64, fn func(*txn) error) (*Changes, error) {
	t := &txn{edit: e, index: index}
	if err := fn(t); err != nil {
		return nil, err
	}
	return &t.changes, nil
}

// write runs fn in a transaction. When fn fails nothing has changed.
func (s *Store) write(index uint64, fn func(*txn) error) (*Changes, error) {
	if s.joint != nil {
		return s.joint.apply(index, fn)
	}
	e := s.begin()
	defer e.end()
	changes, err := e.apply(index, fn)
	if err != nil {
		return nil, err
	}
	e.commit()
	s.Advance(index)
	return changes, nil
}

// Together runs apply, which writes log entries up to the index last, as one
// transaction: what they change in common is written once. When apply says false, as
// it must if one of them failed, nothing has changed and Together says so.
func (s *Store) Together(last uint64, apply func() bool) bool {
	e := s.begin()
	defer e.end()
	s.joint = e
	defer func() { s.joint = nil }()
	if !apply() {
		return false
	}
	e.commit()
	s.Advance(last)
	return true
}

// txn is one log entry within a transaction.
type txn struct {
	*edit
	index   uint64
	changes Changes
}

// tree implements reader.
func (t *txn) tree(number int) radix.Tree { return t.view[number] }

// set writes one row to a tree.
func (t *txn) set(number int, k key, row any) {
	t.view[number] = t.nodes.Put(t.view[number], k, row)
}

// unset removes one row from a tree.
func (t *txn) unset(number int, k key) {
	t.view[number] = t.nodes.Delete(t.view[number], k)
}

// joined is the key of a row in an index that may have several rows with the key k. It
// is good until the next call.
func (t *txn) joined(k, id key) key {
	t.scratch = append(append(t.scratch[:0], k...), id...)
	return t.scratch
}

// noteIndex records at which index a table changed.
func (t *txn) noteIndex(name string) {
	indexes.put(t, &nomad.IndexEntry{Key: name, Value: t.index})
}

// touch records that a table changed.
func (t *txn) touch(name string) {
	if name != indexes.name {
		t.touched[name] = t.index
	}
}
