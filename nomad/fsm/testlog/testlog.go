// Package testlog is a Raft log for tests, without Raft. An entry is encoded, gets the next
// index, and is immediately applied by a real FSM.
package testlog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Log applies entries to the state of one server.
type Log struct {
	fsm *fsm.FSM

	mu     sync.Mutex
	index  uint64
	before func(ctx context.Context, t message.CommandType) error
}

// New returns a log with an empty state. observer may be nil.
func New(observer fsm.Observer) *Log {
	log := slog.New(slog.DiscardHandler)
	return &Log{fsm: fsm.New(state.New(log), observer, log), index: 1}
}

// Before sets a function that is called before each entry. Its error becomes the result of
// Apply.
func (l *Log) Before(fn func(ctx context.Context, t message.CommandType) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = fn
}

// Store returns the state.
func (l *Log) Store() *state.Store { return l.fsm.State() }

// Snapshot returns a snapshot of the current state.
func (l *Log) Snapshot() *state.Snapshot { return l.Store().Snapshot() }

// Apply writes one entry.
func (l *Log) Apply(ctx context.Context, t message.CommandType, payload any) (uint64, error) {
	snap, err := l.apply(ctx, t, payload)
	if snap == nil {
		return 0, err
	}
	return snap.Index(), err
}

// apply writes one entry and returns the state right after it. An observer may write the next
// entry at once.
func (l *Log) apply(ctx context.Context, t message.CommandType, payload any) (*state.Snapshot, error) {
	l.mu.Lock()
	before := l.before
	l.mu.Unlock()
	if before != nil {
		if err := before(ctx, t); err != nil {
			return nil, err
		}
	}
	data, err := codec.EncodeCommand(t, payload)
	if err != nil {
		return nil, fmt.Errorf("encode command %d: %w", t, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	err, _ = l.fsm.Apply(&raft.Log{Index: l.index, Type: raft.LogCommand, Data: data}).(error)
	return l.Snapshot(), err
}

// Must writes one entry and returns its index. It fails the test on an error.
func (l *Log) Must(t testing.TB, typ message.CommandType, payload any) uint64 {
	t.Helper()
	return l.must(t, typ, payload).Index()
}

func (l *Log) must(t testing.TB, typ message.CommandType, payload any) *state.Snapshot {
	t.Helper()
	snap, err := l.apply(context.Background(), typ, payload)
	if err != nil {
		t.Fatalf("apply command %d: %v", typ, err)
	}
	return snap
}
