package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// DB holds the rows of tables in memory, and the index of the last log entry that was applied.
type DB struct {
	mem       *memdb.MemDB
	latest    atomic.Uint64
	abandoned chan struct{}
	joint     *joint // set while WriteBatch runs; only the writer uses it

	mu    sync.Mutex
	moved chan struct{} // closed when latest grows; nil without waiters
}

// NewDB returns an empty database with the tables. The tables must include the one of Indexes.
func NewDB(schema *memdb.DBSchema) *DB {
	mem, err := memdb.NewMemDB(schema)
	if err != nil {
		panic(fmt.Sprintf("table: bug: schema: %v", err))
	}
	return &DB{mem: mem, abandoned: make(chan struct{})}
}

// LatestIndex returns the index of the last applied log entry.
func (d *DB) LatestIndex() uint64 { return d.latest.Load() }

// View returns an immutable view of the rows and a log index that it includes.
func (d *DB) View() (tx Reader, index uint64) {
	index = d.latest.Load() // read before the view is taken, so that the view includes this index
	return d.mem.Txn(false), index
}

// Wait waits until the log entry with the index is applied.
func (d *DB) Wait(ctx context.Context, index uint64) error {
	for {
		moved := d.waitChannel(index)
		if moved == nil {
			return nil
		}
		select {
		case <-moved:
		case <-d.abandoned:
			return fmt.Errorf("wait for state at index %d: %w", index, ErrAbandoned)
		case <-ctx.Done():
			return fmt.Errorf("wait for state at index %d, have %d: %w", index, d.LatestIndex(), ctx.Err())
		}
	}
}

// ErrAbandoned means that a restore has replaced the database. Callers start again with the new
// one.
var ErrAbandoned = errors.New("state was replaced by a restore")

// waitChannel returns nil if index is reached, and otherwise a channel that is closed when the
// latest index grows.
func (d *DB) waitChannel(index uint64) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.latest.Load() >= index {
		return nil
	}
	if d.moved == nil {
		d.moved = make(chan struct{})
	}
	return d.moved
}

// Advance records that the log entry with the index was applied, even if it changed nothing. The
// FSM calls it after each entry.
func (d *DB) Advance(index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index <= d.latest.Load() {
		return
	}
	d.latest.Store(index)
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
}

// Abandoned returns a channel that is closed when a restore has replaced the database. Blocked
// readers must then wake.
func (d *DB) Abandoned() <-chan struct{} { return d.abandoned }

// Abandon closes the channel that Abandoned returns. The FSM calls it once, after a restore has replaced
// the database.
func (d *DB) Abandon() { close(d.abandoned) }

// Txn is one log entry within a write transaction. Its reads see its own writes.
type Txn struct {
	*memdb.Txn
	// Index is the index of the log entry.
	Index uint64
	// Written holds the written rows of tables with events, in the order of the writes.
	Written []Write

	touched []string // tables, each once
}

// Write is one written row: a pointer to the stored value.
type Write struct {
	Row any
	// Deleted means that the row was deleted. Row is its last value.
	Deleted bool
}

// Write runs fn in a transaction for the log entry with the index. If fn fails, nothing changes.
// Within WriteBatch all entries share one transaction.
func (d *DB) Write(index uint64, fn func(*Txn) error) error {
	if d.joint != nil {
		return d.joint.write(index, fn)
	}
	t := &Txn{Txn: d.mem.Txn(true), Index: index}
	defer t.Abort()
	if err := fn(t); err != nil {
		return err
	}
	for _, name := range t.touched {
		t.SetTableIndex(name)
	}
	t.Commit()
	d.Advance(index)
	return nil
}

// Begin starts a transaction that does not belong to a log entry. The caller commits or aborts it.
func (d *DB) Begin() *Txn { return &Txn{Txn: d.mem.Txn(true)} }

// joint is one memdb transaction for several log entries. Each entry sees the writes of earlier
// entries. Readers see all of them or none.
type joint struct {
	Txn
	last map[string]uint64 // the last index of each table
}

// WriteBatch runs apply in one transaction. apply writes log entries up to the index last. Watches
// fire once, and the index of each table is written once. If an entry fails, apply must return
// false. WriteBatch then writes nothing and returns false.
func (d *DB) WriteBatch(last uint64, apply func() bool) bool {
	j := &joint{Txn: Txn{Txn: d.mem.Txn(true)}, last: map[string]uint64{}}
	defer j.Abort()
	d.joint = j
	defer func() { d.joint = nil }()
	if !apply() {
		return false
	}
	for name, index := range j.last {
		j.Index = index
		j.SetTableIndex(name)
	}
	j.Commit()
	d.Advance(last)
	return true
}

// write runs fn as the next entry.
func (j *joint) write(index uint64, fn func(*Txn) error) error {
	t := &Txn{Txn: j.Txn.Txn, Index: index}
	if err := fn(t); err != nil {
		return err
	}
	for _, name := range t.touched {
		j.last[name] = index
	}
	return nil
}

// touch records that a table changed.
func (t *Txn) touch(name string) {
	if name == Indexes.Name || slices.Contains(t.touched, name) {
		return
	}
	t.touched = append(t.touched, name)
}

// Indexes is the table of the index of the last change of each table.
var Indexes = &Table[nomad.IndexEntry]{
	Name: "index",
	ID:   func(e *nomad.IndexEntry) Key { return KeyOf(e.Key) },
}

// SetTableIndex records the index of the log entry as the last change of a table.
func (t *Txn) SetTableIndex(name string) {
	Indexes.Put(t, &nomad.IndexEntry{Key: name, Value: t.Index})
}

// LastIndex returns the highest index at which one of the tables changed.
func LastIndex(tx Reader, tables ...string) uint64 {
	var highest uint64
	for _, name := range tables {
		if row := Indexes.Get(tx, nil, KeyOf(name)); row != nil {
			highest = max(highest, row.Value)
		}
	}
	return highest
}
