package taskrunner

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// record is what survives the agent: the state of the task as reported to the servers, and the local
// state that the next agent needs.
type record struct {
	log         *slog.Logger
	store       Store
	alloc, task string
	changed     func()
	redact      func(string) string // removes values of secret blocks; set before the first event

	local state.LocalState // owned by Run

	mu    sync.Mutex
	state nomad.TaskState
}

func newRecord(cfg *Config, log *slog.Logger) *record {
	return &record{log: log, store: cfg.Store, alloc: cfg.Alloc.ID, task: cfg.Task.Name, changed: cfg.Changed,
		local: state.LocalState{Hooks: map[string]*state.HookState{}}, state: nomad.TaskState{State: nomad.TaskStatePending}}
}

// restore sets what an earlier agent has stored.
func (r *record) restore(t state.Task) {
	if t.State != nil {
		r.state = *t.State
	}
	if t.Local == nil {
		return
	}
	r.local = *t.Local
	if r.local.Hooks == nil {
		r.local.Hooks = map[string]*state.HookState{}
	}
}

// snapshot returns a copy of the state. Its events are shared and never change.
func (r *record) snapshot() *nomad.TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	return &s
}

// update changes the state, adds the event unless it is nil, queues the state for storage and
// calls changed.
func (r *record) update(change func(*nomad.TaskState), e *nomad.TaskEvent) {
	if e != nil {
		redact(e, r.redact)
	}
	r.mu.Lock()
	change(&r.state)
	if e != nil {
		addEvent(&r.state, e)
	}
	s := r.state
	put := r.store.PutTaskLater
	if s.State == nomad.TaskStatePending && !s.Paused.Pauses() {
		put = r.store.PutTaskWithNext // stored with the start or the end that follows
	}
	// Queued under the mutex, so that an older state never replaces a newer one.
	err := put(r.alloc, r.task, state.Task{State: &s})
	r.mu.Unlock()
	if err != nil {
		r.log.Warn("store state of task", "err", err)
	}
	r.changed()
}

// stored returns when all states that were queued before are on the disk.
func (r *record) stored() error {
	if err := r.store.PutTask(r.alloc, r.task, state.Task{}); err != nil { // an empty write, after the queued ones
		return fmt.Errorf("store state of task %s: %w", r.task, err)
	}
	return nil
}

// storeLocal stores the local state before it returns.
func (r *record) storeLocal() error {
	return r.store.PutTask(r.alloc, r.task, state.Task{Local: &r.local})
}

// storeLocalLater stores the local state soon.
func (r *record) storeLocalLater() error {
	return r.store.PutTaskLater(r.alloc, r.task, state.Task{Local: &r.local})
}
