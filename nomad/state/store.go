package state

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// Store is the replicated state of one server.
type Store struct {
	*table.DB
	log  *slog.Logger
	base uint64 // first index, if restored from a snapshot
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
		panic(fmt.Sprintf("state: bug: initial rows: %v", err))
	}
	return s
}

// Empty returns a store without rows, which a Restore fills.
func Empty(log *slog.Logger) *Store {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Store{DB: table.NewDB(schema()), log: log}
}

// putBuiltin adds the built-in node pools and the default namespace if they do not exist.
func (t *txn) putBuiltin() {
	builtin := []nomad.NodePool{
		{Name: nomad.NodePoolAll, Description: nomad.NodePoolAllDescription},
		{Name: nomad.NodePoolDefault, Description: nomad.NodePoolDefaultDescription},
	}
	for _, p := range builtin {
		if nodePools.Get(t, nil, table.KeyOf(p.Name)) == nil {
			t.putNodePool(&p)
		}
	}
	if namespaces.Get(t, nil, table.KeyOf(nomad.DefaultNamespace)) == nil {
		t.putNamespace(&nomad.Namespace{Name: nomad.DefaultNamespace, Description: nomad.DefaultNamespaceDescription})
	}
}

// Snapshot returns a view of the current state.
func (s *Store) Snapshot() *Snapshot {
	tx, index := s.View()
	return &Snapshot{store: s, tx: tx, index: index}
}

// SnapshotAfter waits until the log entry index is applied, and returns a snapshot that includes
// it.
func (s *Store) SnapshotAfter(ctx context.Context, index uint64) (*Snapshot, error) {
	if err := s.Wait(ctx, index); err != nil {
		return nil, err
	}
	return s.Snapshot(), nil
}

// Snapshot is an immutable view of the state.
type Snapshot struct {
	store *Store
	tx    table.Reader
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
func (s *Snapshot) TableIndex(tables ...string) uint64 { return table.LastIndex(s.tx, tables...) }

// txn is one log entry, with the effects that span tables.
type txn struct {
	*table.Txn
	log     *slog.Logger
	changes Changes
	usages  map[string]*quota.NamespaceUsage // modified usages by namespace; nil means no quota
	at      int64                            // the time in the command, in ns since 1970; 0 if it has none
}

// write runs fn as the log entry index. If fn fails, nothing changes.
func (s *Store) write(index uint64, fn func(*txn) error) (*Changes, error) {
	t := &txn{log: s.log}
	err := s.Write(index, func(entry *table.Txn) error {
		t.Txn = entry
		if err := fn(t); err != nil {
			return err
		}
		t.storeQuotaUsages()
		t.changes.Written = entry.Written
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &t.changes, nil
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
	// Volumes are the CSI volumes, by csi.Resource, that more allocations may use now: they were registered or changed, or
	// a claim of them ended.
	Volumes []string
	// Purged nodes were removed, and their identities are no longer valid.
	Purged []string
	// Written holds the rows for which events are published, in the order of the writes. If a row
	// was written twice, the last write counts.
	Written []table.Write
}
