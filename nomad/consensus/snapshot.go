package consensus

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// Save takes a snapshot of the applied state. The caller must close the reader.
func (r *Raft) Save() (*raft.SnapshotMeta, io.ReadCloser, error) {
	f := r.raft.Snapshot()
	err := f.Error()
	if err == nil {
		meta, state, err := f.Open()
		if err != nil {
			return nil, nil, fmt.Errorf("open raft snapshot: %w", err)
		}
		return meta, state, nil
	}
	if !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil, nil, fmt.Errorf("raft snapshot: %w", err)
	}
	last, err := r.stores.snapshots.List()
	if err != nil {
		return nil, nil, fmt.Errorf("list raft snapshots: %w", err)
	}
	if len(last) == 0 {
		return nil, nil, errors.New("raft snapshot: nothing is applied yet")
	}
	meta, state, err := r.stores.snapshots.Open(last[0].ID)
	if err != nil {
		return nil, nil, fmt.Errorf("open raft snapshot: %w", err)
	}
	return meta, state, nil
}

// Restore replaces the state of the cluster with the snapshot. The caller must have checked the
// snapshot, because a server whose FSM cannot read it stops. Restore returns when a majority
// has the new state. Commands that were passed to Apply before are applied before; Apply refuses
// others with apierror.ErrNoLeader until Restore returns.
func (r *Raft) Restore(meta *raft.SnapshotMeta, state io.Reader) error {
	done := make(chan error, 1)
	go func() {
		r.commands.stop()
		err := r.raft.Restore(meta, state, 0)
		r.commands.resume() // before Restore returns: its caller may apply commands at once
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("raft restore: %w", ourError(err))
		}
		return nil
	case <-r.ended: // its last request may never be answered
		return fmt.Errorf("raft restore: %w", ErrMaybeApplied)
	}
}

// LastIndex returns the index of the last entry of the log.
func (r *Raft) LastIndex() uint64 { return r.raft.LastIndex() }

// memorySnapshots keeps the last complete snapshots in memory. Each has its own store, because
// raft's in-memory store lists a snapshot while it is written.
type memorySnapshots struct {
	mu   sync.Mutex
	kept []*raft.InmemSnapshotStore // newest first
}

// Create implements raft.SnapshotStore.
func (m *memorySnapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration,
	confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	one := raft.NewInmemSnapshotStore()
	sink, err := one.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	return &memorySink{SnapshotSink: sink, into: m, one: one}, nil
}

// List implements raft.SnapshotStore.
func (m *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*raft.SnapshotMeta
	for _, one := range m.kept {
		metas, err := one.List()
		if err != nil {
			return nil, err
		}
		out = append(out, metas...)
	}
	return out, nil
}

// Open implements raft.SnapshotStore.
func (m *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.kept {
		if meta, state, err := one.Open(id); err == nil {
			return meta, state, nil
		}
	}
	return nil, nil, fmt.Errorf("unknown snapshot %s", id)
}

// memorySink is a snapshot that is being written.
type memorySink struct {
	raft.SnapshotSink
	into  *memorySnapshots
	one   *raft.InmemSnapshotStore
	ended bool
}

// Cancel implements raft.SnapshotSink.
func (s *memorySink) Cancel() error {
	s.ended = true
	return s.SnapshotSink.Cancel()
}

// Close implements raft.SnapshotSink. It makes the complete snapshot visible.
func (s *memorySink) Close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	s.into.mu.Lock()
	defer s.into.mu.Unlock()
	s.into.kept = append([]*raft.InmemSnapshotStore{s.one}, s.into.kept...)
	s.into.kept = s.into.kept[:min(len(s.into.kept), retained)]
	return nil
}
