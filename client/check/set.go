package check

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Limits of concurrent runs.
const (
	maxRuns      = 256 // of the node
	maxAllocRuns = 8   // of one allocation
)

// Waiting is the output of a check that has not run yet.
const Waiting = "nomad: waiting to run"

// Store keeps results over a restart of the agent (state.DB).
type Store interface {
	PutCheckResult(alloc string, r *message.CheckQueryResult)
	DeleteCheckResults(alloc string, ids []message.CheckID)
}

// Config configures a Set.
type Config struct {
	Store   Store
	Version string // of this program, for the User-Agent
	Consul  Consul // nil: the node has no Consul
	Log     *slog.Logger
}

// Set holds the checks of all allocations of the node, with their results. Its methods may be called concurrently.
type Set struct {
	cfg   Config
	slots chan struct{} // one element for each run that is under way

	mu     sync.Mutex
	allocs map[string]*alloc
}

// alloc holds the checks of one allocation.
type alloc struct {
	checks    map[message.CheckID]*tracked
	targets   []*Target
	changed   wake.Signal // targets differ from those that are watched
	execs     map[string]Exec
	attached  map[string]int // calls of Attach by task
	watches   int            // running calls of Watch
	followers map[*follower]bool
	// reported has the last report of Consul by owner and ID of the check. renamed has the IDs in Consul that differ.
	reported map[string]map[string]reconcile.Status
	renamed  map[message.CheckID]string
}

// New returns a Set with the results that an earlier agent stored, by allocation.
func New(cfg Config, stored map[string][]*message.CheckQueryResult) *Set {
	s := &Set{cfg: cfg, slots: make(chan struct{}, maxRuns), allocs: map[string]*alloc{}}
	for id, results := range stored {
		a := s.alloc(id)
		for _, r := range results {
			a.checks[r.ID] = &tracked{latest: r, last: r, ran: true}
		}
	}
	return s
}

// alloc returns the entry of an allocation and creates it if necessary. The caller holds mu, or is New.
func (s *Set) alloc(id string) *alloc {
	a := s.allocs[id]
	if a == nil {
		a = &alloc{checks: map[message.CheckID]*tracked{}, changed: wake.New(), execs: map[string]Exec{},
			attached: map[string]int{}, followers: map[*follower]bool{}, reported: map[string]map[string]reconcile.Status{},
			renamed: map[message.CheckID]string{}}
		s.allocs[id] = a
	}
	return a
}

// Observe sets the checks of an allocation, for Watch. New checks get their initial status unless they have a result.
// The results of all other checks are removed. Followers are not called.
func (s *Set) Observe(allocID string, targets []*Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.alloc(allocID)
	a.targets = targets
	wanted := map[message.CheckID]bool{}
	for _, t := range targets {
		wanted[t.ID] = true
		if a.checks[t.ID] == nil {
			r := t.first()
			a.checks[t.ID] = &tracked{latest: r, last: r}
		}
	}
	var vanished []message.CheckID
	for id := range a.checks {
		if !wanted[id] {
			delete(a.checks, id)
			delete(a.renamed, id)
			vanished = append(vanished, id)
		}
	}
	if len(vanished) > 0 {
		s.cfg.Store.DeleteCheckResults(allocID, vanished)
	}
	a.changed.Send()
}

// Forget removes the checks of an allocation with their results, also from the state database.
func (s *Set) Forget(allocID string) {
	s.mu.Lock()
	_, known := s.allocs[allocID]
	s.mu.Unlock()
	if !known {
		return
	}
	s.Observe(allocID, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(allocID)
}

// drop removes the entry of an allocation if nothing uses it. The caller holds mu.
func (s *Set) drop(allocID string) {
	if a := s.allocs[allocID]; a != nil && len(a.execs) == 0 && len(a.targets) == 0 && a.watches == 0 &&
		len(a.followers) == 0 {
		delete(s.allocs, allocID)
	}
}

// Results returns the latest results of an allocation's checks. They must not be modified.
func (s *Set) Results(allocID string) map[message.CheckID]*message.CheckQueryResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[message.CheckID]*message.CheckQueryResult{}
	if a := s.allocs[allocID]; a != nil {
		for id, c := range a.checks {
			out[id] = c.latest
		}
	}
	return out
}

// Attach makes scripts of an allocation run in a task with exec. Detach must follow.
func (s *Set) Attach(allocID, task string, exec func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.alloc(allocID)
	a.execs[task] = exec
	a.attached[task]++
	a.changed.Send()
}

// Detach ends Attach. The scripts of the task fail until it is attached again.
func (s *Set) Detach(allocID, task string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.allocs[allocID]; a != nil {
		delete(a.execs, task)
		s.drop(allocID)
	}
}

func (s *Set) exec(allocID, task string) Exec {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.allocs[allocID]; a != nil {
		return a.execs[task]
	}
	return nil
}

// Watch runs the checks of an allocation until ctx ends. netNS is the path of its network namespace, "" for the
// host's.
func (s *Set) Watch(ctx context.Context, allocID, netNS string) {
	s.mu.Lock()
	a := s.alloc(allocID)
	a.watches++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		a.watches--
		s.drop(allocID)
	}()
	p := &probe{netNS: netNS, version: s.cfg.Version, execIn: func(task string) Exec { return s.exec(allocID, task) }}
	w := &watch{set: s, id: allocID, probe: p, slots: make(chan struct{}, maxAllocRuns), running: map[message.CheckID]*running{},
		reports: map[string]func(){}}
	defer w.end()
	for {
		s.mu.Lock()
		targets, attached := a.targets, maps.Clone(a.attached)
		s.mu.Unlock()
		w.sync(ctx, targets)
		w.follow(targets, attached)
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
		}
	}
}

// watch is one call of Watch.
type watch struct {
	set     *Set
	id      string
	probe   *probe
	slots   chan struct{} // one element for each run of this allocation
	running map[message.CheckID]*running
	reports map[string]func() // by owner of services of Consul: ends its reports
	wait    sync.WaitGroup
}

// end ends the reports of Consul and waits for the last runs.
func (w *watch) end() {
	w.follow(nil, nil)
	w.wait.Wait()
}

// running is a check that is repeated. An update of the job may replace its target.
type running struct {
	target   atomic.Pointer[Target]
	cancel   context.CancelFunc
	now      wake.Signal // the check is run at once
	attached int         // calls of Attach for its task that it has seen
}

// sync starts new checks and stops those that have vanished. A check whose ID is the same goes on.
func (w *watch) sync(ctx context.Context, targets []*Target) {
	wanted := map[message.CheckID]bool{}
	for _, t := range targets {
		if !t.runs() {
			continue
		}
		wanted[t.ID] = true
		if r := w.running[t.ID]; r != nil {
			r.target.Store(t)
			continue
		}
		one, cancel := context.WithCancel(ctx)
		r := &running{cancel: cancel, now: wake.New()}
		r.target.Store(t)
		w.running[t.ID] = r
		w.wait.Go(func() { w.repeat(one, r) })
	}
	for id, r := range w.running {
		if !wanted[id] {
			r.cancel()
			delete(w.running, id)
		}
	}
}

// repeat runs one check until ctx ends.
func (w *watch) repeat(ctx context.Context, one *running) {
	defer one.cancel()
	t := one.target.Load()
	timer := time.NewTimer(t.Interval/2 + rand.N(t.Interval/2))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-one.now:
		}
		if !take(ctx, w.slots) {
			return
		}
		if !take(ctx, w.set.slots) {
			<-w.slots
			return
		}
		t = one.target.Load()
		r := w.probe.run(ctx, t)
		<-w.set.slots
		<-w.slots
		if ctx.Err() != nil {
			return
		}
		if t.InConsul {
			w.set.send(w.id, t, r)
		} else {
			w.set.record(w.id, t, r)
		}
		timer.Reset(t.Interval)
	}
}

func take(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// record keeps a result and calls the followers if the status has changed.
func (s *Set) record(allocID string, t *Target, r *message.CheckQueryResult) {
	for _, f := range s.keep(allocID, t, r) {
		f.changed()
	}
}

// keep keeps a result. If the status has changed, the state database gets it, and keep returns the followers.
func (s *Set) keep(allocID string, t *Target, r *message.CheckQueryResult) []*follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.allocs[allocID]
	if a == nil || a.checks[t.ID] == nil || !a.checks[t.ID].record(t, r) {
		return nil // no longer observed, or unchanged
	}
	latest := a.checks[t.ID].latest
	// The name and the output are the job's text, which does not belong in the agent's log.
	s.cfg.Log.Debug("status of a check has changed", "alloc", allocID, "check", string(t.ID), "status", string(latest.Status))
	s.cfg.Store.PutCheckResult(allocID, latest)
	return slices.Collect(maps.Keys(a.followers))
}
