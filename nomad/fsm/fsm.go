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
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Observer hears of what was applied, after it is visible in state, in the
// order of the log, on every server. It must not block and must not write to
// what it is given.
type Observer interface {
	// EvalsUpserted tells of evaluations that were created or updated.
	EvalsUpserted(index uint64, evals []*nomad.Evaluation)
	// NodeChanged tells of a node that was registered or changed.
	NodeChanged(index uint64, n *nomad.Node)
	// AllocsStopped tells of allocations that ended at the client: capacity is free.
	AllocsStopped(index uint64, allocs []*nomad.Allocation)
	// JobRemoved tells of a job that was stopped or purged.
	JobRemoved(ns, id string)
	// AllocsChanged tells of allocations whose client status or health changed.
	AllocsChanged(index uint64, allocs []*nomad.Allocation)
	// QuotasFreed tells of quotas that may have room again.
	QuotasFreed(index uint64, quotas []string)
}

// Purger is an Observer that is called too after nodes were purged: their identities have
// ended.
type Purger interface {
	NodesPurged(ids []string)
}

// Recorder is an Observer that hears of every row too, as events tell of them, and
// of a restore: what it heard before is of another state then.
type Recorder interface {
	// Applied tells of the command at index and the rows that it wrote.
	Applied(index uint64, command nomad.MessageType, rows []state.Write)
	// Replaced tells that a restore has put another state in the place of the one that
	// it heard of.
	Replaced()
}

// FSM implements raft.FSM over a state store.
type FSM struct {
	log      *slog.Logger
	observer Observer
	recorder Recorder // nil when the observer is none
	commands map[nomad.MessageType]command
	store    atomic.Pointer[state.Store]
	applied  atomic.Uint64

	broken  atomic.Pointer[error]      // why nothing is applied any more; raft's goroutine writes it
	failed  chan error                 // holds one
	skipped map[nomad.MessageType]bool // missing types that were logged; used by raft's goroutine only
}

// New returns an FSM that writes to store. A nil observer hears nothing.
func New(store *state.Store, observer Observer, log *slog.Logger) *FSM {
	f := &FSM{log: log, observer: observer, commands: commandTable(), failed: make(chan error, 1),
		skipped: map[nomad.MessageType]bool{}}
	f.recorder, _ = observer.(Recorder)
	f.store.Store(store)
	return f
}

// State returns the store. A restore puts another one in its place; whoever
// keeps one watches its Abandoned.
func (f *FSM) State() *state.Store { return f.store.Load() }

// AppliedIndex returns the index of the last entry that was applied.
func (f *FSM) AppliedIndex() uint64 { return f.applied.Load() }

// Failed gives the error of the first entry that cannot be applied by this
// server. The server must stop then: it knows less than the others.
func (f *FSM) Failed() <-chan error { return f.failed }

// ErrBroken means that an earlier entry could not be applied.
var ErrBroken = errors.New("the state of this server is incomplete")

// Broken returns why the FSM applies nothing any more, nil while it applies entries.
// It may be called from any goroutine.
func (f *FSM) Broken() error {
	if err := f.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// fail stops the FSM for good.
func (f *FSM) fail(err error) error {
	broken := fmt.Errorf("%w: %w", ErrBroken, err)
	if f.broken.CompareAndSwap(nil, &broken) {
		f.failed <- err
	}
	return broken
}

// Apply implements raft.FSM. The result is an error, or what the command answers.
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

// ApplyBatch implements raft.BatchingFSM: entries that were committed together are
// applied as one transaction. Should one of them fail they are applied one by one.
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

// together applies entries as one transaction and says whether that was possible.
func (f *FSM) together(entries []*raft.Log, out []any) bool {
	if len(entries) < 2 || f.Broken() != nil {
		return false
	}
	store, last := f.State(), entries[len(entries)-1].Index
	changes := make([]*state.Changes, len(entries))
	done := store.Together(last, func() bool {
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

// apply finds the command of an entry and runs it.
func (f *FSM) apply(store *state.Store, entry *raft.Log) (any, *state.Changes, error) {
	if len(entry.Data) == 0 {
		return nil, nil, &fatalError{fmt.Errorf("log entry %d is empty", entry.Index)}
	}
	number := nomad.MessageType(entry.Data[0])
	ignorable := number&nomad.IgnoreUnknownTypeFlag != 0
	number &^= nomad.IgnoreUnknownTypeFlag
	cmd := f.commands[number]
	switch {
	case cmd.apply != nil:
		defer measure(number, time.Now())
		return cmd.apply(store, entry.Index, entry.Data[1:])
	case ignorable:
		f.skip(number, entry.Index)
		return nil, nil, nil
	}
	return nil, nil, missing(number, cmd.name, entry.Index)
}

// skip passes over an entry that carries the ignore flag. Each type is logged once.
func (f *FSM) skip(number nomad.MessageType, index uint64) {
	if f.skipped[number] {
		return
	}
	f.skipped[number] = true
	f.log.Warn("log entries of a type that this version lacks are skipped: they carry the ignore flag", "type", uint8(number), "index", index)
}

// missing is the error of an entry that this version cannot apply.
func missing(number nomad.MessageType, name string, index uint64) error {
	if name == "" {
		name = "unknown"
	}
	return &fatalError{fmt.Errorf("log entry %d has type %d (%s), which this version does not support: upgrade this server, "+
		"or remove the feature on a server that supports it and then save and restore a snapshot there, so that the log no longer holds the entry",
		index, number, name)}
}

// tell passes on what a command changed.
func (f *FSM) tell(entry *raft.Log, c *state.Changes) {
	if c == nil || f.observer == nil {
		return
	}
	index := entry.Index
	if f.recorder != nil && len(c.Written) > 0 {
		f.recorder.Applied(index, nomad.MessageType(entry.Data[0])&^nomad.IgnoreUnknownTypeFlag, c.Written)
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
}

// fatalError is an error after which this server cannot go on.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Snapshot implements raft.FSM: it is cheap, the writing happens in Persist.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.Broken(); err != nil {
		return nil, err
	}
	return &snapshot{state: f.State().Snapshot()}, nil
}

// Restore implements raft.FSM. The store in use is replaced only when the whole
// stream was read. A snapshot that cannot be read stops the server: raft has stored it
// already, and starts from it next time.
func (f *FSM) Restore(stream io.ReadCloser) error {
	defer stream.Close() // only read from: nothing is lost by a failure
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
