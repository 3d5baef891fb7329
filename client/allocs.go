package client

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// allocSet is the allocations of this node.
//
//	(unknown) ──servers list it──▶ running ──runner returns──▶ ended ──collected──▶ gone
//	    ▲                                                                            │
//	    └───────────────────────servers list it no more──────────────────────────────┘
//
// Gone is a note that keeps a finished allocation from being fetched again, and says
// how it ended, in case the servers forget it.
type allocSet struct {
	db      *state.DB
	updates *updates
	log     *slog.Logger
	make    func(a *nomad.Allocation) (*allocrunner.Runner, error)
	ended   chan struct{}   // buffered 1: a runner returned
	life    context.Context // of the runners; ends with the agent
	wg      sync.WaitGroup

	mu   sync.Mutex
	held map[string]*held
	gone map[string]gone
	left map[string]bool // IDs of those whose directory could not be removed
}

// gone is what is known of an allocation that is no longer held.
type gone struct {
	index  uint64            // AllocModifyIndex when it was last seen
	status *nomad.Allocation // what the servers were told last, may be nil
}

// held is one allocation with its runner.
type held struct {
	id     string
	runner *allocrunner.Runner
	ended  chan struct{} // closed when the runner returned

	// Guarded by allocSet.mu.
	alloc    *nomad.Allocation // as the servers have it
	status   *nomad.Allocation // as the runner told, nil before
	endedAt  time.Time
	removing bool // somebody is about to destroy it
}

func newAllocSet(life context.Context, db *state.DB, u *updates, log *slog.Logger,
	make func(*nomad.Allocation) (*allocrunner.Runner, error)) *allocSet {
	return &allocSet{
		db: db, updates: u, log: log, make: make, life: life,
		ended: newSignal(), held: map[string]*held{}, gone: map[string]gone{}, left: map[string]bool{},
	}
}

// outdated returns which of the listed allocations the node lacks or has in an
// older form, with the index they must have. When the state was replaced, those
// that the node has in a newer form are among them: the servers have forgotten it.
func (s *allocSet) outdated(listed map[string]uint64, replaced bool) map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]uint64{}
	for id, index := range listed {
		note, known := s.gone[id]
		have, newer := note.index, false
		if h := s.held[id]; h != nil {
			have, known = h.alloc.AllocModifyIndex, true
			newer = replaced && have > index
		}
		if !known || have < index || newer {
			wanted[id] = index
		}
	}
	return wanted
}

// apply brings the node to what the servers list: fetched holds those that are
// new or changed.
func (s *allocSet) apply(listed map[string]uint64, fetched []*nomad.Allocation) {
	for _, h := range s.unlisted(listed) {
		s.log.Info("allocation is no longer ours", "alloc", h.id)
		s.wg.Go(func() { s.remove(h) })
	}
	for _, a := range fetched {
		s.take(a)
	}
}

// unlisted forgets notes, and returns what is held, of allocations that the
// servers do not list.
func (s *allocSet) unlisted(listed map[string]uint64) []*held {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.gone, func(id string, _ gone) bool {
		_, ok := listed[id]
		if !ok {
			s.db.DeleteAllocLater(id) // of one that could not be restored
		}
		return !ok
	})
	var out []*held
	for id, h := range s.held {
		if _, ok := listed[id]; !ok && !h.removing {
			h.removing = true
			out = append(out, h)
		}
	}
	return out
}

// tellAgain queues the last status of every allocation that the servers list.
func (s *allocSet) tellAgain(listed map[string]uint64) {
	s.mu.Lock() // until they are queued: what comes meanwhile is newer
	defer s.mu.Unlock()
	for id := range listed {
		status := s.gone[id].status
		if h := s.held[id]; h != nil {
			status = h.status
		}
		if status != nil {
			s.updates.putOlder(status)
		}
	}
}

// tellHeld queues the last status of what is held: servers that had given the node up
// wait for it.
func (s *allocSet) tellHeld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if h.status != nil {
			s.updates.putOlder(h.status)
		}
	}
}

// take starts an allocation or passes its new form on.
func (s *allocSet) take(a *nomad.Allocation) {
	if s.passOn(a) {
		return
	}
	switch {
	case a.ClientTerminalStatus():
		status := final(a, a.ClientStatus, a.ClientDescription)
		s.note(a, status)
		if a.ClientStatus == nomad.AllocClientStatusLost {
			s.updates.put(status) // the servers wait for a word from the node itself
		}
	case a.ServerTerminalStatus():
		// Stopped before it came here: nobody else will tell the servers.
		status := final(a, nomad.AllocClientStatusComplete, "stopped before it was started")
		s.note(a, status)
		s.updates.put(status)
	default:
		s.start(a)
	}
}

// passOn gives the new form to the runner, if there is one.
func (s *allocSet) passOn(a *nomad.Allocation) bool {
	s.mu.Lock()
	h := s.held[a.ID]
	if h != nil {
		h.alloc = a
	}
	s.mu.Unlock()
	if h == nil {
		return false
	}
	s.db.PutAllocWithNext(a)
	h.runner.Update(a)
	return true
}

func (s *allocSet) note(a, status *nomad.Allocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[a.ID] = gone{a.AllocModifyIndex, status}
}

// final is what the servers are told of an allocation that has no runner.
func final(a *nomad.Allocation, status, why string) *nomad.Allocation {
	return &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, JobID: a.JobID, Namespace: a.Namespace,
		ClientStatus: status, ClientDescription: why, TaskStates: a.TaskStates}
}

// start begins to run an allocation that the node did not have.
func (s *allocSet) start(a *nomad.Allocation) {
	s.db.PutAllocWithNext(a)
	r, err := s.make(a)
	if err != nil {
		s.refuse(a, err)
		return
	}
	s.run(a, r)
}

// refuse tells the servers that an allocation cannot run here. What is stored of it
// stays until the servers list it no more.
func (s *allocSet) refuse(a *nomad.Allocation, err error) {
	s.log.Error("run allocation", "alloc", a.ID, "err", err)
	status := final(a, nomad.AllocClientStatusFailed, err.Error())
	s.note(a, status)
	s.updates.put(status)
}

// restore takes up what the last agent ran. It returns when every runner knows
// again what it had.
func (s *allocSet) restore(allocs []*nomad.Allocation) {
	for _, a := range allocs {
		if state.Abandoned(a) {
			s.take(a)
			continue
		}
		r, err := s.make(a)
		if err == nil {
			err = r.Restore()
		}
		if err != nil {
			s.refuse(a, err)
			continue
		}
		s.run(a, r)
	}
}

// awaitRecovery waits until the drivers were asked once for the tasks of every allocation,
// or ctx ends.
func (s *allocSet) awaitRecovery(ctx context.Context) {
	for _, h := range s.all() {
		h.runner.AwaitRecovery(ctx)
	}
}

// run holds the allocation and gives its runner a goroutine.
func (s *allocSet) run(a *nomad.Allocation, r *allocrunner.Runner) {
	h := &held{id: a.ID, runner: r, alloc: a, ended: make(chan struct{})}
	s.mu.Lock()
	s.held[a.ID] = h
	s.mu.Unlock()
	s.wg.Go(func() {
		defer close(h.ended)
		if err := r.Run(s.life); err != nil && s.life.Err() == nil {
			s.log.Error("run allocation", "alloc", h.id, "err", err)
		}
		s.mu.Lock()
		h.endedAt = time.Now()
		s.mu.Unlock()
		raise(s.ended)
	})
}

// told is where runners report to.
func (s *allocSet) told(status *nomad.Allocation) {
	var before *nomad.Allocation
	s.mu.Lock()
	if h := s.held[status.ID]; h != nil {
		before, h.status = h.status, status
	}
	s.mu.Unlock()
	switch newsOf(before, status) {
	case change:
		s.updates.put(status)
	case detail:
		s.updates.putDetail(status)
	}
}

// remove stops an allocation that still runs and destroys it: its directory and
// its state. When the agent ends first, the next one finds it again.
func (s *allocSet) remove(h *held) {
	err := h.runner.Destroy(s.life)
	if err != nil && s.life.Err() != nil {
		return
	}
	if err != nil {
		s.log.Error("destroy allocation", "alloc", h.id, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[h.id] = gone{h.alloc.AllocModifyIndex, h.status}
	delete(s.held, h.id)
	if err != nil {
		s.left[h.id] = true
	}
}

// onDisk returns the IDs of all that may have a directory.
func (s *allocSet) onDisk() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(slices.Collect(maps.Keys(s.held)), slices.Collect(maps.Keys(s.left))...)
}

// destroyAll ends every allocation and removes it, at most until ctx ends.
func (s *allocSet) destroyAll(ctx context.Context) {
	var wg sync.WaitGroup
	for _, h := range s.all() {
		wg.Go(func() {
			if err := h.runner.Destroy(ctx); err != nil {
				s.log.Warn("stop allocation", "alloc", h.id, "err", err)
			}
		})
	}
	wg.Wait()
}

// all returns what is held, by ID.
func (s *allocSet) all() []*held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.held), func(a, b *held) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
}

// find returns an allocation of this node.
func (s *allocSet) find(id string) (*held, error) {
	if id == "" {
		return nil, nomad.ErrMissingAllocID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[id]; h != nil {
		return h, nil
	}
	return nil, nomad.UnknownAlloc(id)
}

// namespace returns that of an allocation of this node.
func (s *allocSet) namespace(id string) (string, error) {
	h, err := s.find(id)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.alloc.Namespace, nil
}

// task checks the name of a task of an allocation. Started reports whether the task
// was ever started.
func (s *allocSet) task(id, task string) (started bool, err error) {
	h, err := s.find(id)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tg := h.alloc.Job.TaskGroup(h.alloc.TaskGroup)
	if tg == nil || tg.Task(task) == nil {
		return false, nomad.Errorf(http.StatusBadRequest, "unknown task name %q", task)
	}
	state := h.runner.States()[task]
	return state != nil && !state.StartedAt.IsZero(), nil
}

// over reports whether a task of an allocation is dead, or the allocation is not on this node any
// more.
func (s *allocSet) over(id, task string) bool {
	h, err := s.find(id)
	if err != nil {
		return true
	}
	state := h.runner.States()[task]
	return state != nil && state.State == nomad.TaskStateDead
}

// findOf is find for what is asked of one task, or of all when task is empty.
func (s *allocSet) findOf(id, task string) (*held, error) {
	h, err := s.find(id)
	if err != nil || task == "" {
		return h, err
	}
	_, err = s.task(id, task)
	return h, err
}

// newSignal makes a channel that holds one wake-up.
func newSignal() chan struct{} { return make(chan struct{}, 1) }

// raise wakes whoever waits on the signal.
func raise(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
