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

// allocSet holds the allocations of this node.
//
//	(unknown) ──servers list it──▶ running ──runner returns──▶ ended ──collected──▶ gone
//	    ▲                                                                            │
//	    └───────────────────────servers list it no more──────────────────────────────┘
//
// An allocation of the previous agent that cannot be restored is unrestored until its processes have ended, and then
// undeleted until its directory and stored state are removed, unless the servers make the node start it again.
//
// A gone entry prevents a finished allocation from being fetched again. It keeps the final
// status, which is sent again if the servers lose it.
type allocSet struct {
	db        *state.DB
	updates   *updates
	log       *slog.Logger
	make      func(a *nomad.Allocation) (*allocrunner.Runner, error)
	destroy   func(ctx context.Context, h *held) error // destroyFree
	ended     chan struct{}                            // buffered 1: a runner returned
	loaded    chan struct{}                            // closed when the allocations of the previous agent are in held
	setLoaded func()
	life      context.Context // of the runners, ends with the agent
	wg        sync.WaitGroup

	removal sync.Mutex // held while an allocation in undeleted is removed, before mu

	mu         sync.Mutex
	held       map[string]*held
	gone       map[string]gone
	undeleted  map[string]removal // allocations that must still be removed: see removeAgain
	unrestored map[string]bool    // see removeUnrestored
}

// gone records an allocation that has been removed from the node.
type gone struct {
	index  uint64            // AllocModifyIndex when it was last seen
	status *nomad.Allocation // last status sent to the servers, may be nil
}

// held is one allocation with its runner.
type held struct {
	id     string
	runner *allocrunner.Runner
	ended  chan struct{} // closed when the runner returned

	// Guarded by allocSet.mu.
	alloc    *nomad.Allocation // as the servers have it
	status   *nomad.Allocation // as the runner last reported it, nil before
	endedAt  time.Time
	removing bool          // the allocation is being destroyed
	holds    int           // readers and movers of its data: see allocSet.hold
	free     chan struct{} // closed when holds becomes 0; nil if nobody waits
}

func newAllocSet(life context.Context, db *state.DB, u *updates, log *slog.Logger,
	make func(*nomad.Allocation) (*allocrunner.Runner, error)) *allocSet {
	loaded := newSignal() // never sent to
	s := &allocSet{
		loaded: loaded, setLoaded: sync.OnceFunc(func() { close(loaded) }),
		db: db, updates: u, log: log, make: make, life: life,
		ended: newSignal(), held: map[string]*held{}, gone: map[string]gone{}, undeleted: map[string]removal{}, unrestored: map[string]bool{},
	}
	s.destroy = s.destroyFree
	return s
}

// outdated returns the listed allocations that the node lacks or has in an older version, with
// the index they must have. When the servers' state was replaced, it also returns those that
// the node has in a newer version, since the servers have lost that version.
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

// apply brings the node to the state that the servers list. fetched holds the new and changed
// allocations.
func (s *allocSet) apply(listed map[string]uint64, fetched []*nomad.Allocation) {
	for _, h := range s.unlisted(listed) {
		s.log.Info("remove an allocation that the servers no longer list", "alloc", h.id)
		s.wg.Go(func() { s.remove(h) })
	}
	for _, a := range fetched {
		s.take(a)
	}
}

// unlisted deletes the gone entries, and returns the held allocations, that the servers do not
// list.
func (s *allocSet) unlisted(listed map[string]uint64) []*held {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.gone, func(id string, _ gone) bool {
		_, ok := listed[id]
		if !ok && s.undeleted[id] == nil && !s.unrestored[id] {
			s.db.DeleteAllocLater(id)
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

// resendListed queues the last status of every allocation that the servers list.
func (s *allocSet) resendListed(listed map[string]uint64) {
	s.mu.Lock() // held until all are queued: a status that arrives meanwhile is newer
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

// resendHeld queues the last status of every held allocation. Servers that had marked the node
// as down or disconnected wait for it.
func (s *allocSet) resendHeld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if h.status != nil {
			s.updates.putOlder(h.status)
		}
	}
}

// resend queues the last status of an allocation.
func (s *allocSet) resend(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.status != nil {
		s.updates.putOlder(h.status)
	}
}

// take starts an allocation, or passes its new version to its runner.
func (s *allocSet) take(a *nomad.Allocation) {
	if s.passOn(a) {
		return
	}
	switch {
	case a.ClientTerminalStatus():
		status := final(a, a.ClientStatus, a.ClientDescription)
		s.note(a, status)
		if a.ClientStatus == nomad.AllocClientStatusLost {
			s.updates.put(status) // the servers need a report from the node itself
		}
	case a.ServerTerminalStatus():
		// Stopped before it reached the node: no runner reports its end.
		status := final(a, nomad.AllocClientStatusComplete, "stopped before it was started")
		s.note(a, status)
		s.updates.put(status)
	default:
		s.start(a)
	}
}

// passOn gives the new version to the runner, if there is one.
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
	if a.ClientStatus == nomad.AllocClientStatusUnknown {
		s.resend(h)
	}
	return true
}

func (s *allocSet) note(a, status *nomad.Allocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[a.ID] = gone{a.AllocModifyIndex, status}
}

// final returns the status that is sent for an allocation without a runner.
func final(a *nomad.Allocation, status, why string) *nomad.Allocation {
	return &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, JobID: a.JobID, Namespace: a.Namespace,
		ClientStatus: status, ClientDescription: why, TaskStates: a.TaskStates}
}

// start runs an allocation that is new on the node.
func (s *allocSet) start(a *nomad.Allocation) {
	if s.reclaim(a.ID) {
		s.db.DeleteAllocLater(a.ID) // what an earlier agent stored
	}
	s.db.PutAllocWithNext(a)
	r, err := s.make(a)
	if err != nil {
		s.refuse(a, err)
		return
	}
	s.run(a, r)
}

// refuse reports to the servers that an allocation cannot run here. Its stored state stays
// until the servers no longer list it.
func (s *allocSet) refuse(a *nomad.Allocation, err error) {
	s.log.Error("run allocation", "alloc", a.ID, "err", err)
	status := final(a, nomad.AllocClientStatusFailed, err.Error())
	s.note(a, status)
	s.updates.put(status)
}

// restore resumes the allocations of the previous agent. It returns when every runner has read
// its stored state.
func (s *allocSet) restore(allocs []*nomad.Allocation) {
	defer s.setLoaded()
	for _, a := range allocs {
		if state.Abandoned(a) {
			s.setUnrestored(a.ID)
			s.take(a)
			continue
		}
		r, err := s.make(a)
		if err == nil {
			err = r.Restore()
		}
		if err != nil {
			s.setUnrestored(a.ID)
			s.refuse(a, err)
			continue
		}
		s.run(a, r)
	}
}

// awaitRecovery waits until the drivers have been asked once to recover the tasks of every
// allocation, or until ctx ends.
func (s *allocSet) awaitRecovery(ctx context.Context) {
	for _, h := range s.all() {
		h.runner.AwaitRecovery(ctx)
	}
}

// run adds the allocation to the set and starts its runner in a goroutine.
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

// report receives the statuses from the runners.
func (s *allocSet) report(status *nomad.Allocation) {
	var before *nomad.Allocation
	s.mu.Lock()
	if h := s.held[status.ID]; h != nil {
		before, h.status = h.status, status
	}
	s.mu.Unlock()
	switch deltaOf(before, status) {
	case change:
		s.updates.put(status)
	case detail:
		s.updates.putDetail(status)
	}
}

// onDisk returns the IDs of all allocations that may have a directory.
func (s *allocSet) onDisk() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Keys(s.held)), slices.Collect(maps.Keys(s.undeleted)), slices.Collect(maps.Keys(s.unrestored)))
}

// destroyAll stops and removes every allocation, until ctx ends.
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

// all returns the held allocations, sorted by ID.
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

// namespace returns the namespace of an allocation of this node.
func (s *allocSet) namespace(id string) (string, error) {
	h, err := s.find(id)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.alloc.Namespace, nil
}

// task checks that an allocation has a task of that name. started reports whether the task was
// ever started.
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

// over reports whether a task is dead or its allocation is no longer on this node.
func (s *allocSet) over(id, task string) bool {
	h, err := s.find(id)
	if err != nil {
		return true
	}
	state := h.runner.States()[task]
	return state != nil && state.State == nomad.TaskStateDead
}

// findOf returns an allocation and, unless task is empty, checks that it has that task.
func (s *allocSet) findOf(id, task string) (*held, error) {
	h, err := s.find(id)
	if err != nil || task == "" {
		return h, err
	}
	_, err = s.task(id, task)
	return h, err
}

// newSignal returns a channel that holds one wake-up.
func newSignal() chan struct{} { return make(chan struct{}, 1) }

// raise sends a wake-up, unless one is pending.
func raise(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// lower clears a signal.
func lower(signal chan struct{}) {
	select {
	case <-signal:
	default:
	}
}
