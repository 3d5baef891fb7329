package fsm

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// Observer is notified of applied commands, on every server, in the order of the log, after
// they are visible in state. It must not block and must not modify its arguments.
type Observer interface {
	// EvalsUpserted reports evaluations that were created or updated.
	EvalsUpserted(index uint64, evals []*nomad.Evaluation)
	// NodeChanged reports a node that was registered or changed.
	NodeChanged(index uint64, n *nomad.Node)
	// AllocsStopped reports allocations that stopped on their client, so that capacity is free.
	AllocsStopped(index uint64, allocs []*nomad.Allocation)
	// JobRemoved reports a job that was stopped or purged.
	JobRemoved(ns, id string)
	// AllocsChanged reports allocations whose client status or health changed.
	AllocsChanged(index uint64, allocs []*nomad.Allocation)
	// QuotasFreed reports quotas that may have free capacity again.
	QuotasFreed(index uint64, quotas []string)
	// VolumesFreed reports CSI volumes, by csi.Resource, that more allocations may use now.
	VolumesFreed(index uint64, volumes []string)
}

// Purger is an Observer that is also called after nodes were purged and their identities have
// become invalid.
type Purger interface {
	NodesPurged(ids []string)
}

// Recorder is an Observer that also receives every written row, for the event stream, and
// restores. After a restore, earlier rows belong to a replaced state.
type Recorder interface {
	// Applied reports the command at index and the rows that it wrote.
	Applied(index uint64, command message.CommandType, rows []table.Write)
	// Replaced reports that a restore has replaced the state.
	Replaced()
}

// FSM implements raft.FSM over a state store.
type FSM struct {
	log      *slog.Logger
	observer Observer
	recorder Recorder // nil if the observer is not a Recorder
	commands map[message.CommandType]command
	store    atomic.Pointer[state.Store]
	applied  atomic.Uint64

	broken  atomic.Pointer[error]        // why the FSM has failed; written by raft's goroutine
	failed  chan error                   // buffered: receives one value
	skipped map[message.CommandType]bool // unsupported types that were logged; used only by raft's goroutine
}

// New returns an FSM that writes to store. observer may be nil.
func New(store *state.Store, observer Observer, log *slog.Logger) *FSM {
	f := &FSM{log: log, observer: observer, commands: commandTable(), failed: make(chan error, 1),
		skipped: map[message.CommandType]bool{}}
	f.recorder, _ = observer.(Recorder)
	f.store.Store(store)
	return f
}

// State returns the store. A restore replaces the store and closes the old one's Abandoned
// channel.
func (f *FSM) State() *state.Store { return f.store.Load() }

// AppliedIndex returns the index of the last applied entry.
func (f *FSM) AppliedIndex() uint64 { return f.applied.Load() }

// Failed returns a channel with the error of the first entry that this server cannot apply. The
// server must then stop, because its state is incomplete.
func (f *FSM) Failed() <-chan error { return f.failed }

// ErrBroken means that an earlier entry could not be applied.
var ErrBroken = errors.New("the state of this server is incomplete")

// Broken returns why the FSM has failed, or nil. It may be called from any goroutine.
func (f *FSM) Broken() error {
	if err := f.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// fail puts the FSM in the state failed.
func (f *FSM) fail(err error) error {
	broken := fmt.Errorf("%w: %w", ErrBroken, err)
	if f.broken.CompareAndSwap(nil, &broken) {
		f.failed <- err
	}
	return broken
}

// Apply implements raft.FSM. It returns an error or the command's result.
func (f *FSM) Apply(entry *raft.Log) any {
	if err := f.Broken(); err != nil {
		return err
	}
	store := f.State()
	resp, changes, err := f.apply(store, entry)
	var fatal *fatalError
	if errors.As(err, &fatal) {
		f.log.Error("log entry cannot be applied", "index", entry.Index, "err", err)
		return f.fail(err)
	}
	store.Advance(entry.Index)
	f.applied.Store(entry.Index)
	if err != nil {
		return err
	}
	f.tell(entry, changes)
	return resp
}

// ApplyBatch implements raft.BatchingFSM. It applies entries that were committed together in
// one transaction. If one of them fails, it applies them one by one.
func (f *FSM) ApplyBatch(entries []*raft.Log) []any {
	out := make([]any, len(entries))
	if !f.together(entries, out) {
		for i, entry := range entries {
			if entry.Type == raft.LogCommand {
				out[i] = f.Apply(entry)
			}
		}
	}
	return out
}

// together applies entries in one transaction and reports whether that was possible.
func (f *FSM) together(entries []*raft.Log, out []any) bool {
	if len(entries) < 2 || f.Broken() != nil {
		return false
	}
	store, last := f.State(), entries[len(entries)-1].Index
	changes := make([]*state.Changes, len(entries))
	done := store.WriteBatch(last, func() bool {
		for i, entry := range entries {
			var err error
			if entry.Type == raft.LogCommand {
				out[i], changes[i], err = f.apply(store, entry)
			}
			if err != nil {
				return false
			}
		}
		return true
	})
	if !done {
		return false
	}
	f.applied.Store(last)
	for i, entry := range entries {
		f.tell(entry, changes[i])
	}
	return true
}

// apply looks up the command of an entry and runs it.
func (f *FSM) apply(store *state.Store, entry *raft.Log) (any, *state.Changes, error) {
	if len(entry.Data) == 0 {
		return nil, nil, &fatalError{fmt.Errorf("log entry %d is empty", entry.Index)}
	}
	number := message.CommandType(entry.Data[0])
	ignorable := number&message.IgnoreUnknownTypeFlag != 0
	number &^= message.IgnoreUnknownTypeFlag
	cmd := f.commands[number]
	switch {
	case cmd.apply != nil:
		defer measure(number, time.Now())
		return cmd.apply(store, entry.Index, entry.Data[1:])
	case ignorable:
		f.skip(number, entry.Index)
		return nil, nil, nil
	}
	return nil, nil, missing(number, entry.Index)
}

// skip skips an entry with the ignore flag. It logs each type once.
func (f *FSM) skip(number message.CommandType, index uint64) {
	if f.skipped[number] {
		return
	}
	f.skipped[number] = true
	f.log.Warn("skipping log entries of an unsupported type with the ignore flag", "type", uint8(number), "index", index)
}

// missing returns the error for an entry that this version cannot apply.
func missing(number message.CommandType, index uint64) error {
	return &fatalError{fmt.Errorf("log entry %d has type %d (unknown), which this version does not support: upgrade this server, "+
		"or remove the feature on a server that supports it and then save and restore a snapshot there, so that the "+
		"log no longer holds the entry",
		index, number)}
}

// tell notifies the observer of a command's changes.
func (f *FSM) tell(entry *raft.Log, c *state.Changes) {
	if c == nil || f.observer == nil {
		return
	}
	index := entry.Index
	if f.recorder != nil && len(c.Written) > 0 {
		f.recorder.Applied(index, message.CommandType(entry.Data[0])&^message.IgnoreUnknownTypeFlag, c.Written)
	}
	for _, n := range c.Nodes {
		f.observer.NodeChanged(index, n)
	}
	for _, id := range c.Removed {
		f.observer.JobRemoved(id.Namespace, id.ID)
	}
	if len(c.Evals) > 0 {
		f.observer.EvalsUpserted(index, c.Evals)
	}
	if len(c.Stopped) > 0 {
		f.observer.AllocsStopped(index, c.Stopped)
	}
	if len(c.Allocs) > 0 {
		f.observer.AllocsChanged(index, c.Allocs)
	}
	if p, ok := f.observer.(Purger); ok && len(c.Purged) > 0 {
		p.NodesPurged(c.Purged)
	}
	if len(c.Quotas) > 0 {
		f.observer.QuotasFreed(index, c.Quotas)
	}
	if len(c.Volumes) > 0 {
		f.observer.VolumesFreed(index, c.Volumes)
	}
}

// fatalError is an error after which the FSM fails.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Snapshot implements raft.FSM. It is fast; Persist does the writing.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.Broken(); err != nil {
		return nil, err
	}
	return &snapshot{state: f.State().Snapshot()}, nil
}

// Restore implements raft.FSM. It replaces the store only after reading the complete stream. An
// unreadable snapshot stops the server: raft has already stored it and would start from it
// again.
func (f *FSM) Restore(stream io.ReadCloser) error {
	defer stream.Close() // read only
	restored, err := ReadSnapshot(stream, f.log)
	if err != nil {
		err = fmt.Errorf("restore snapshot: %w", err)
		f.log.Error("snapshot cannot be restored", "err", err)
		return f.fail(err)
	}
	f.applied.Store(restored.LatestIndex())
	f.store.Swap(restored).Abandon()
	if f.recorder != nil {
		f.recorder.Replaced()
	}
	return nil
}
