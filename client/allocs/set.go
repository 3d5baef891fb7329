// Package allocs owns the allocations of a node: their runners, their directories, and what the servers know of them. It pulls
// the allocations from the servers, runs them, reports their statuses, and removes them.
//
//	(unknown) ──servers list it──▶ running ──runner returns──▶ ended ──collected──▶ gone
//	    ▲                                                                            │
//	    └───────────────────────servers list it no more──────────────────────────────┘
//
// An allocation of the previous agent that cannot be restored is unrestored until its processes have ended, and then
// undeleted until its directory and stored state are removed, unless the servers make the node start it again.
//
// Nobody else removes an allocation. Readers and movers of its data hold it: then the collector skips it, and a removal for
// the servers waits (holds.go). A removal that failed is tried again (removal.go).
//
// Set.Run collects garbage, and stops allocations whose node has been without a server for too long. Set.Follow pulls and
// reports while the servers accept the node. Each allocation has a goroutine, and each removal. When no server can be
// reached, tasks keep running; their statuses are sent once a server answers. Changes are sent at once. Task events are
// sent with the next change, or 100 ms later, because each call adds an entry to the Raft log.
package allocs

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/hoststats"
	"github.com/open-nomad/open-nomad/client/nodeid"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

// Node is what the allocations need of their node.
type Node interface {
	// NewRunner returns a runner of an allocation.
	NewRunner(a *nomad.Allocation) (*allocrunner.Runner, error)
	// LastBeat returns the time of the last heartbeat that a server answered, or the zero time.
	LastBeat() time.Time
	// PullFailed reports that the allocations could not be pulled.
	PullFailed(err error)
	// StateReplaced reports that the servers have restored an older state.
	StateReplaced()
	// Abandon lets the node remove the network and the CSI volumes of an allocation that does not run.
	Abandon(alloc string)
}

// Config is the configuration of a Set.
type Config struct {
	Dir     string // contains the directory of each allocation
	DB      *state.DB
	Session string        // the ID of the agent's session
	Calls   nodeid.Caller // to the servers
	Drivers *driverset.Set
	Users   *driverset.Users
	Node    Node
	GC      GCConfig
	Log     *slog.Logger
}

// Set holds the allocations of this node.
//
// A gone entry prevents a finished allocation from being fetched again. It keeps the final
// status, which is sent again if the servers lose it.
type Set struct {
	cfg       Config
	db        *state.DB
	updates   *updates
	collector *collector
	log       *slog.Logger
	destroy   func(ctx context.Context, e *Entry) error // destroyFree
	ended     wake.Signal                               // a runner returned
	loaded    chan struct{}                             // closed when the allocations of the previous agent are in entries
	setLoaded func()
	orphans   chan struct{}   // closed when the orphans have ended
	life      context.Context // of the runners, until Close
	endLife   context.CancelFunc
	wg        sync.WaitGroup

	restoredAt *uint64             // RestoreIndex of the last pull, nil before the first
	waiting    []*nomad.Allocation // restored by Follow

	removal sync.Mutex // held while an allocation in undeleted is removed, before mu

	mu         sync.Mutex
	entries    map[string]*Entry
	gone       map[string]gone
	undeleted  map[string]removal // allocations that must still be removed: see removeAgain
	unrestored map[string]bool    // see removeUnrestored
	stored     map[string]bool    // those of the previous agent; never removed, because what they left may be found later
}

// gone records an allocation that has been removed from the node.
type gone struct {
	index  uint64            // AllocModifyIndex when it was last seen
	status *nomad.Allocation // last status sent to the servers, may be nil
}

// Entry is one allocation with its runner.
type Entry struct {
	ID     string
	Runner *allocrunner.Runner
	ended  chan struct{} // closed when the runner returned

	// Guarded by Set.mu.
	alloc    *nomad.Allocation // as the servers have it
	status   *nomad.Allocation // as the runner last reported it, nil before
	endedAt  time.Time
	removing bool          // the allocation is being destroyed
	holds    int           // readers and movers of its data: see Set.hold
	free     chan struct{} // closed when holds becomes 0; nil if nobody waits
}

// Ended returns a channel that is closed when the runner has returned, shortly after it reported the final status.
func (e *Entry) Ended() <-chan struct{} { return e.ended }

// New returns a Set without allocations. Close ends it.
func New(cfg Config) *Set {
	life, endLife := context.WithCancel(context.Background())
	loaded := make(chan struct{})
	s := &Set{
		cfg: cfg, db: cfg.DB, log: cfg.Log, life: life, endLife: endLife,
		ended: wake.New(), orphans: make(chan struct{}),
		loaded: loaded, setLoaded: sync.OnceFunc(func() { close(loaded) }),
		entries: map[string]*Entry{}, gone: map[string]gone{},
		undeleted: map[string]removal{}, unrestored: map[string]bool{}, stored: map[string]bool{},
	}
	s.destroy = s.destroyFree
	s.updates = newUpdates(s.sendUpdates, cfg.Log)
	s.collector = &collector{cfg: cfg.GC, dir: cfg.Dir, set: s, log: cfg.Log, disk: hoststats.Disk}
	return s
}

// Run collects finished allocations, and stops those that must not run without a server, until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.collector.Run(ctx) })
	group.Go(func() error { return s.watchHeartbeats(ctx) })
	return group.Wait()
}

// Follow brings the node to the state of the servers until ctx ends. First it restores the allocations that RestoreLater
// kept. The servers must have accepted the node.
func (s *Set) Follow(ctx context.Context) error {
	if s.Restore(s.waiting); len(s.waiting) > 0 {
		s.removeUnrestored() // these processes have ended with the machine
	}
	s.waiting = nil
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.updates.Run(ctx) })
	group.Go(func() error { return s.pull(ctx) })
	return group.Wait()
}

// Close ends the runners and waits for them. Tasks keep running.
func (s *Set) Close() {
	s.endLife()
	s.wg.Wait()
}

// run adds the allocation to the set and starts its runner in a goroutine.
func (s *Set) run(a *nomad.Allocation, r *allocrunner.Runner) {
	e := &Entry{ID: a.ID, Runner: r, alloc: a, ended: make(chan struct{})}
	s.mu.Lock()
	s.entries[a.ID] = e
	s.mu.Unlock()
	s.wg.Go(func() {
		defer close(e.ended)
		if err := r.Run(s.life); err != nil && s.life.Err() == nil {
			s.log.Error("run allocation", "alloc", e.ID, "err", err)
		}
		s.mu.Lock()
		e.endedAt = time.Now()
		s.mu.Unlock()
		s.ended.Send()
	})
}

// Report receives the statuses from the runners.
func (s *Set) Report(status *nomad.Allocation) {
	var before *nomad.Allocation
	s.mu.Lock()
	if e := s.entries[status.ID]; e != nil {
		before, e.status = e.status, status
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
func (s *Set) onDisk() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Keys(s.entries)), slices.Collect(maps.Keys(s.undeleted)),
		slices.Collect(maps.Keys(s.unrestored)))
}

// DestroyAll stops and removes every allocation, until ctx ends.
func (s *Set) DestroyAll(ctx context.Context) {
	var wg sync.WaitGroup
	for _, e := range s.All() {
		wg.Go(func() {
			if err := e.Runner.Destroy(ctx); err != nil {
				s.log.Warn("stop allocation", "alloc", e.ID, "err", err)
			}
		})
	}
	wg.Wait()
}

// RemoveDirs removes the directories of all allocations, also of those that could not be destroyed. It leaves the rest of
// the allocation directory, which another agent may share.
func (s *Set) RemoveDirs() {
	for _, id := range s.onDisk() {
		if err := allocdir.Destroy(s.cfg.Dir, id); err != nil {
			s.log.Warn("remove allocation", "alloc", id, "err", err)
		}
	}
}

// All returns the allocations with a runner, sorted by ID.
func (s *Set) All() []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.entries), func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
}
