package state

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// Store is the replicated state of one server.
type Store struct {
	log       *slog.Logger
	db        *memdb.MemDB
	latest    atomic.Uint64
	abandoned chan struct{}
	base      uint64 // where it began, when it came from a snapshot
	joint     *joint // set while Together runs; used by the writer only

	mu    sync.Mutex
	moved chan struct{} // closed when latest grows; nil while nobody waits
}

// New returns a store with nothing in it but what every cluster has: the node
// pools all and default and the namespace default.
func New(log *slog.Logger) *Store {
	s := Empty(log)
	_, err := s.write(1, func(t *txn) error {
		t.putBuiltin()
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("state: bug: first rows: %v", err))
	}
	return s
}

// Empty returns a store without a row, to be filled by a Restore.
func Empty(log *slog.Logger) *Store {
	db, err := memdb.NewMemDB(schema())
	if err != nil {
		panic(fmt.Sprintf("state: bug: schema: %v", err))
	}
	return &Store{log: log, db: db, abandoned: make(chan struct{})}
}

// putBuiltin adds the built-in node pools and namespace where they are missing.
func (t *txn) putBuiltin() {
	builtin := []nomad.NodePool{
		{Name: nomad.NodePoolAll, Description: nomad.NodePoolAllDescription},
		{Name: nomad.NodePoolDefault, Description: nomad.NodePoolDefaultDescription},
	}
	for _, p := range builtin {
		if nodePools.get(t, nil, keyOf(p.Name)) == nil {
			t.putNodePool(&p)
		}
	}
	if namespaces.get(t, nil, keyOf(nomad.DefaultNamespace)) == nil {
		t.putNamespace(&nomad.Namespace{Name: nomad.DefaultNamespace, Description: nomad.DefaultNamespaceDescription})
	}
}

// LatestIndex returns the index of the last log entry that was applied.
func (s *Store) LatestIndex() uint64 { return s.latest.Load() }

// Snapshot returns the state as it is now.
func (s *Store) Snapshot() *Snapshot {
	index := s.latest.Load() // before the view is taken, so that it holds at least this much
	return &Snapshot{store: s, tx: s.db.Txn(false), index: index}
}

// SnapshotAfter returns a state that holds everything up to the log entry
// index; it waits for that within ctx.
func (s *Store) SnapshotAfter(ctx context.Context, index uint64) (*Snapshot, error) {
	for {
		moved := s.waitChannel(index)
		if moved == nil {
			return s.Snapshot(), nil
		}
		select {
		case <-moved:
		case <-s.abandoned:
			return nil, fmt.Errorf("wait for state at index %d: %w", index, ErrAbandoned)
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for state at index %d, have %d: %w", index, s.LatestIndex(), ctx.Err())
		}
	}
}

// ErrAbandoned means that a restore has replaced the store; callers begin anew
// with the store that took its place.
var ErrAbandoned = fmt.Errorf("state was replaced by a restore")

// waitChannel returns nil when index is reached, otherwise a channel that is
// closed at the next step.
func (s *Store) waitChannel(index uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.Load() >= index {
		return nil
	}
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// Advance records that the log entry index was applied, also when it changed
// nothing. The FSM calls it after each entry.
func (s *Store) Advance(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index <= s.latest.Load() {
		return
	}
	s.latest.Store(index)
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// Abandoned is closed when a restore has replaced the store: whoever blocks on
// it must wake.
func (s *Store) Abandoned() <-chan struct{} { return s.abandoned }

// Abandon closes the channel of Abandoned. The FSM calls it once, after a
// restored store took the place of this one.
func (s *Store) Abandon() { close(s.abandoned) }

// Snapshot is a view of the state that never changes.
type Snapshot struct {
	store *Store
	tx    *memdb.Txn
	index uint64
}

// Index returns a log index up to which the snapshot holds everything.
func (s *Snapshot) Index() uint64 { return s.index }

// Restored returns the index at which the store began that came from a snapshot,
// zero for another. Rows that are older may have replaced newer ones then.
func (s *Snapshot) Restored() uint64 { return s.store.base }

// RestoreIndex returns the index of the last restore by an operator, zero when there
// was none. All servers know the same.
func (s *Snapshot) RestoreIndex() uint64 { return s.TableIndex(IndexRestore) }

// Store returns the store the snapshot was taken from.
func (s *Snapshot) Store() *Store { return s.store }

// TableIndex returns the highest index at which one of the tables changed.
func (s *Snapshot) TableIndex(tables ...string) uint64 {
	var highest uint64
	for _, name := range tables {
		if row := indexes.get(s.tx, nil, keyOf(name)); row != nil {
			highest = max(highest, row.Value)
		}
	}
	return highest
}

// txn is one log entry within a write transaction. Its reads see what it has written.
type txn struct {
	*memdb.Txn
	index   uint64
	touched []string // tables, each once
	changes Changes
	usages  map[string]*nomad.NamespaceUsage // by namespace, as they will be; nil values have no quota
}

// write runs fn in a transaction. When fn fails nothing has changed.
func (s *Store) write(index uint64, fn func(*txn) error) (*Changes, error) {
	if s.joint != nil {
		return s.joint.write(index, fn)
	}
	t := &txn{Txn: s.db.Txn(true), index: index}
	defer t.Abort()
	if err := fn(t); err != nil {
		return nil, err
	}
	t.settle()
	for _, name := range t.touched {
		t.noteIndex(name)
	}
	t.Commit()
	s.Advance(index)
	return &t.changes, nil
}

// noteIndex records at which index a table changed.
func (t *txn) noteIndex(name string) {
	indexes.check(t.Insert(indexes.name, &nomad.IndexEntry{Key: name, Value: t.index}))
}

// joint is one memdb transaction for several log entries. Each entry sees the writes of
// the entries before it. Readers see all of them or none.
type joint struct {
	txn
	last map[string]uint64 // the last index of each table
}

// Together runs apply, which writes log entries up to the index last, in one transaction:
// watches fire once and the index of each table is written once. apply must return false
// if an entry failed; then nothing is written and Together returns false.
func (s *Store) Together(last uint64, apply func() bool) bool {
	j := &joint{txn: txn{Txn: s.db.Txn(true)}, last: map[string]uint64{}}
	defer j.Abort()
	s.joint = j
	defer func() { s.joint = nil }()
	if !apply() {
		return false
	}
	for name, index := range j.last {
		j.index = index
		j.noteIndex(name)
	}
	j.Commit()
	s.Advance(last)
	return true
}

// write runs fn as one more entry.
func (j *joint) write(index uint64, fn func(*txn) error) (*Changes, error) {
	t := &txn{Txn: j.Txn, index: index}
	if err := fn(t); err != nil {
		return nil, err
	}
	t.settle()
	for _, name := range t.touched {
		j.last[name] = index
	}
	return &t.changes, nil
}

// touch records that a table changed.
func (t *txn) touch(name string) {
	if name == indexes.name || slices.Contains(t.touched, name) {
		return
	}
	t.touched = append(t.touched, name)
}

// Changes is what a write did, for those who must hear of it.
type Changes struct {
	// Evals were created or updated.
	Evals []*nomad.Evaluation
	// Nodes were registered or changed.
	Nodes []*nomad.Node
	// Stopped allocations became terminal at the client: capacity is free.
	Stopped []*nomad.Allocation
	// Allocs changed client status or health.
	Allocs []*nomad.Allocation
	// Removed jobs were stopped or purged.
	Removed []nomad.NamespacedID
	// Quotas may have room again: less of them is held, or they or the namespaces that
	// name them changed.
	Quotas []string
	// Purged nodes were removed, and their identities ended.
	Purged []string
	// Written are the rows that events tell of, in the order in which they were written;
	// of a row that was written twice the last counts.
	Written []Write
}

// Write is one row as it was written: a pointer to what the table holds.
type Write struct {
	Row any
	// Gone says that the row was deleted; Row is as it was then.
	Gone bool
}

// indexes is the table of the last change of each table.
var indexes = &table[nomad.IndexEntry]{
	name: "index",
	id:   func(e *nomad.IndexEntry) key { return keyOf(e.Key) },
}
