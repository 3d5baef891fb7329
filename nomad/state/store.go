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
	base      uint64 // first index, if restored from a snapshot
	joint     *joint // set while Together runs; only the writer uses it

	mu    sync.Mutex
	moved chan struct{} // closed when latest grows; nil without waiters
}

// New returns a store with the built-in rows: the node pools all and default, and the namespace
// default.
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

// Empty returns a store without rows, which a Restore fills.
func Empty(log *slog.Logger) *Store {
	db, err := memdb.NewMemDB(schema())
	if err != nil {
		panic(fmt.Sprintf("state: bug: schema: %v", err))
	}
	return &Store{log: log, db: db, abandoned: make(chan struct{})}
}

// putBuiltin adds the built-in node pools and the default namespace if they do not exist.
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

// LatestIndex returns the index of the last applied log entry.
func (s *Store) LatestIndex() uint64 { return s.latest.Load() }

// Snapshot returns a view of the current state.
func (s *Store) Snapshot() *Snapshot {
	index := s.latest.Load() // read before the view is taken, so that the view includes this index
	return &Snapshot{store: s, tx: s.db.Txn(false), index: index}
}

// SnapshotAfter waits until the log entry index is applied, and returns a snapshot that includes
// it.
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

// ErrAbandoned means that a restore has replaced the store. Callers start again with the new
// store.
var ErrAbandoned = fmt.Errorf("state was replaced by a restore")

// waitChannel returns nil if index is reached, and otherwise a channel that is closed when the
// latest index grows.
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

// Advance records that the log entry index was applied, even if it changed nothing. The FSM calls
// it after each entry.
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

// Abandoned returns a channel that is closed when a restore has replaced the store. Blocked
// readers must then wake.
func (s *Store) Abandoned() <-chan struct{} { return s.abandoned }

// Abandon closes the channel of Abandoned. The FSM calls it once, after a restored store has
// replaced this one.
func (s *Store) Abandon() { close(s.abandoned) }

// Snapshot is an immutable view of the state.
type Snapshot struct {
	store *Store
	tx    *memdb.Txn
	index uint64
}

// Index returns a log index that the snapshot includes.
func (s *Snapshot) Index() uint64 { return s.index }

// Restored returns the index at which a restored store started, and zero for other stores. The
// restore may have replaced rows by older ones.
func (s *Snapshot) Restored() uint64 { return s.store.base }

// RestoreIndex returns the index of the last restore by an operator, or zero if there was none.
// It is the same on all servers.
func (s *Snapshot) RestoreIndex() uint64 { return s.TableIndex(IndexRestore) }

// Store returns the store of the snapshot.
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

// txn is one log entry within a write transaction. Its reads see its own writes.
type txn struct {
	*memdb.Txn
	index   uint64
	touched []string // tables, each once
	changes Changes
	usages  map[string]*nomad.NamespaceUsage // modified usages by namespace; nil means no quota
}

// write runs fn in a transaction. If fn fails, nothing changes.
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

// noteIndex records the index of the transaction as the last change of a table.
func (t *txn) noteIndex(name string) {
	indexes.check(t.Insert(indexes.name, &nomad.IndexEntry{Key: name, Value: t.index}))
}

// joint is one memdb transaction for several log entries. Each entry sees the writes of earlier
// entries. Readers see all of them or none.
type joint struct {
	txn
	last map[string]uint64 // the last index of each table
}

// Together runs apply in one transaction. apply writes log entries up to the index last. Watches
// fire once, and the index of each table is written once. apply must return false if an entry
// failed. Then nothing is written and Together returns false.
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

// write runs fn as the next entry.
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

// Changes lists the effects of a write for the components that react to them.
type Changes struct {
	// Evals were created or updated.
	Evals []*nomad.Evaluation
	// Nodes were registered or changed.
	Nodes []*nomad.Node
	// Stopped allocations became terminal on the client, so their resources are free.
	Stopped []*nomad.Allocation
	// Allocs changed their client status or health.
	Allocs []*nomad.Allocation
	// Removed jobs were stopped or purged.
	Removed []nomad.NamespacedID
	// Quotas may have room again: their usage fell, or the quotas or their namespaces changed.
	Quotas []string
	// Purged nodes were removed, and their identities are no longer valid.
	Purged []string
	// Written holds the rows for which events are published, in the order of the writes. If a row
	// was written twice, the last write counts.
	Written []Write
}

// Write is one written row: a pointer to the stored value.
type Write struct {
	Row any
	// Gone means that the row was deleted. Row is its last value.
	Gone bool
}

// indexes is the table of the index of the last change of each table.
var indexes = &table[nomad.IndexEntry]{
	name: "index",
	id:   func(e *nomad.IndexEntry) key { return keyOf(e.Key) },
}
