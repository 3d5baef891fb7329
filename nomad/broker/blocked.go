package broker

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// retryFailed is how often evaluations go on whose plans were refused too often.
	retryFailed = time.Minute
	// forgetAfter is how long an unblock is remembered for evaluations that a
	// worker still processes.
	forgetAfter = 15 * time.Minute
)

// Blocked holds the evaluations that wait for capacity.
//
// An evaluation says which computed node classes it could use; classes that it
// does not name are new since, and count as usable. One whose constraints depend
// on more than the class has escaped: any change may help it. One of a system job
// waits for its node alone.
//
// The scheduler looked at state at SnapshotIndex. Capacity that came later is
// found in a memory of past unblocks, so that none is missed on the way from the
// scheduler to here.
//
// One that found the quota of its namespace exhausted waits for that quota, and for
// nodes only if something else was missing too.
//
// Like the broker it works on the leader only.
type Blocked struct {
	broker *Broker

	mu         sync.Mutex
	enabled    bool
	evals      map[string]*blockedEval            // all, by ID
	jobs       map[blockKey]*blockedEval          // the one of each job (and node)
	nodes      map[string]map[string]*blockedEval // of system jobs: by node, then ID
	classes    unblocks
	byNode     unblocks
	byQuota    unblocks
	duplicates []*nomad.Evaluation
	duplicate  chan struct{} // holds a value when duplicates grew
}

type blockedEval struct {
	eval  *nomad.Evaluation
	token string
}

// blockKey is what only one evaluation may be blocked for. Node is set for
// system jobs only.
type blockKey struct {
	job  nomad.NamespacedID
	node string
}

func keyOf(e *nomad.Evaluation) blockKey {
	k := blockKey{job: nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}}
	if e.Type == nomad.JobTypeSystem || e.Type == nomad.JobTypeSysBatch {
		k.node = e.NodeID
	}
	return k
}

// NewBlocked returns a disabled Blocked that enqueues in broker.
func NewBlocked(broker *Broker) *Blocked {
	b := &Blocked{broker: broker, duplicate: make(chan struct{}, 1)}
	b.empty()
	return b
}

func (b *Blocked) empty() {
	b.evals = make(map[string]*blockedEval)
	b.jobs = make(map[blockKey]*blockedEval)
	b.nodes = make(map[string]map[string]*blockedEval)
	b.classes = newUnblocks()
	b.byNode = newUnblocks()
	b.byQuota = newUnblocks()
	b.duplicates = nil
}

// Enable lets it take evaluations.
func (b *Blocked) Enable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enabled = true
}

// Disable forgets every evaluation.
func (b *Blocked) Disable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enabled = false
	b.empty()
}

// Run unblocks what failed, now and then, until ctx ends.
func (b *Blocked) Run(ctx context.Context) error {
	tick := time.NewTicker(retryFailed)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			b.UnblockFailed()
		}
	}
}

// Block takes an evaluation that waits for capacity.
func (b *Blocked) Block(eval *nomad.Evaluation) { b.Reblock(eval, "") }

// Reblock is Block for an evaluation that a worker still holds under token.
func (b *Blocked) Reblock(eval *nomad.Evaluation, token string) {
	b.mu.Lock()
	run := b.block(&blockedEval{eval, token})
	b.mu.Unlock()
	b.enqueue(run)
}

// block stores e and returns it if capacity came since its scheduler looked.
func (b *Blocked) block(e *blockedEval) []*blockedEval {
	if !b.enabled {
		return nil
	}
	if old := b.evals[e.eval.ID]; old != nil {
		if e.token == "" {
			e.token = old.token
		}
		b.remove(old)
	}
	if other := b.jobs[keyOf(e.eval)]; other != nil {
		if e.eval.CreateIndex < other.eval.CreateIndex {
			b.drop(e.eval)
			return nil
		}
		b.remove(other)
		b.drop(other.eval)
	}
	if b.missed(e.eval) {
		return []*blockedEval{e}
	}
	b.evals[e.eval.ID] = e
	k := keyOf(e.eval)
	b.jobs[k] = e
	if k.node != "" {
		on := b.nodes[k.node]
		if on == nil {
			on = make(map[string]*blockedEval)
			b.nodes[k.node] = on
		}
		on[e.eval.ID] = e
	}
	return nil
}

// drop marks an evaluation that another one of its job replaced.
func (b *Blocked) drop(eval *nomad.Evaluation) {
	b.duplicates = append(b.duplicates, eval)
	select {
	case b.duplicate <- struct{}{}:
	default: // a value is there already
	}
}

func (b *Blocked) remove(e *blockedEval) {
	delete(b.evals, e.eval.ID)
	k := keyOf(e.eval)
	if b.jobs[k] == e {
		delete(b.jobs, k)
	}
	if on := b.nodes[k.node]; on != nil {
		delete(on, e.eval.ID)
		if len(on) == 0 {
			delete(b.nodes, k.node)
		}
	}
}

// missed says whether capacity came between the snapshot of eval and now.
func (b *Blocked) missed(eval *nomad.Evaluation) bool {
	if q := eval.QuotaLimitReached; q != "" {
		if b.byQuota.since(eval.SnapshotIndex, func(quota string) bool { return quota == q }) {
			return true
		}
		if quotaOnly(eval) {
			return false
		}
	}
	if k := keyOf(eval); k.node != "" {
		return b.byNode.since(eval.SnapshotIndex, func(node string) bool { return node == k.node })
	}
	return b.classes.since(eval.SnapshotIndex, func(class string) bool { return usable(eval, class) })
}

// quotaOnly says whether nothing but a quota stands against eval.
func quotaOnly(eval *nomad.Evaluation) bool {
	if eval.QuotaLimitReached == "" || len(eval.FailedTGAllocs) == 0 {
		return false
	}
	for _, m := range eval.FailedTGAllocs {
		if len(m.QuotaExhausted) == 0 {
			return false
		}
	}
	return true
}

// usable says whether capacity on nodes of the class could help eval.
func usable(eval *nomad.Evaluation, class string) bool {
	if quotaOnly(eval) {
		return false
	}
	if eval.EscapedComputedClass {
		return true
	}
	eligible, known := eval.ClassEligibility[class]
	return eligible || !known
}

// Unblock tells that nodes of the computed class have capacity since index.
func (b *Blocked) Unblock(computedClass string, index uint64) {
	b.mu.Lock()
	var run []*blockedEval
	if b.enabled {
		b.classes.add(computedClass, index)
		for _, e := range b.evals {
			if keyOf(e.eval).node == "" && usable(e.eval, computedClass) {
				run = append(run, e)
			}
		}
		b.removeAll(run)
	}
	b.mu.Unlock()
	b.enqueue(run)
}

// UnblockNode tells that the node has capacity since index; it concerns the
// evaluations of system jobs.
func (b *Blocked) UnblockNode(nodeID string, index uint64) {
	b.mu.Lock()
	var run []*blockedEval
	if b.enabled {
		b.byNode.add(nodeID, index)
		for _, e := range b.nodes[nodeID] {
			if !quotaOnly(e.eval) {
				run = append(run, e)
			}
		}
		b.removeAll(run)
	}
	b.mu.Unlock()
	b.enqueue(run)
}

// UnblockQuota tells that the quota may have room since index.
func (b *Blocked) UnblockQuota(quota string, index uint64) {
	b.mu.Lock()
	var run []*blockedEval
	if b.enabled {
		b.byQuota.add(quota, index)
		for _, e := range b.evals {
			if e.eval.QuotaLimitReached == quota {
				run = append(run, e)
			}
		}
		b.removeAll(run)
	}
	b.mu.Unlock()
	b.enqueue(run)
}

// UnblockFailed enqueues the evaluations that are blocked since their plans were
// refused too often, not for lack of capacity.
func (b *Blocked) UnblockFailed() {
	b.mu.Lock()
	var run []*blockedEval
	for _, e := range b.evals {
		if e.eval.TriggeredBy == nomad.EvalTriggerMaxPlans {
			run = append(run, e)
		}
	}
	b.removeAll(run)
	b.mu.Unlock()
	b.enqueue(run)
}

// Untrack forgets the evaluations of a job: everything was placed, or it is gone.
func (b *Blocked) Untrack(namespace, jobID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	job := nomad.NamespacedID{ID: jobID, Namespace: namespace}
	if e := b.jobs[blockKey{job: job}]; e != nil {
		b.remove(e)
	}
	for node, on := range b.nodes {
		if e := b.jobs[blockKey{job, node}]; e != nil && on[e.eval.ID] == e {
			b.remove(e)
		}
	}
}

// forget removes one evaluation that is over.
func (b *Blocked) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.evals[id]; e != nil {
		b.remove(e)
	}
}

// forgetUntil says that unblocks up to index are not known.
func (b *Blocked) forgetUntil(index uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.classes.forgotten = max(b.classes.forgotten, index)
	b.byNode.forgotten = max(b.byNode.forgotten, index)
	b.byQuota.forgotten = max(b.byQuota.forgotten, index)
}

func (b *Blocked) removeAll(evals []*blockedEval) {
	for _, e := range evals {
		b.remove(e)
	}
}

// enqueue gives evaluations to the broker; b.mu is not held.
func (b *Blocked) enqueue(evals []*blockedEval) {
	if len(evals) == 0 {
		return
	}
	all := make(map[*nomad.Evaluation]string, len(evals))
	for _, e := range evals {
		all[e.eval] = e.token
	}
	b.broker.EnqueueAll(all)
}

// takeDuplicates returns the evaluations that others of their job replaced.
func (b *Blocked) takeDuplicates() []*nomad.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.duplicates
	b.duplicates = nil
	return out
}

// Evals returns the evaluations, in no order.
func (b *Blocked) Evals() []*nomad.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*nomad.Evaluation, 0, len(b.evals))
	for _, e := range b.evals {
		out = append(out, e.eval)
	}
	return out
}

// BlockedStats counts the evaluations in a Blocked.
type BlockedStats struct {
	Blocked int // all
	Escaped int // of those, the ones that any change may help
	Nodes   int // of those, the ones of system jobs
	Quota   int // those that wait for a quota
}

// Stats counts the evaluations.
func (b *Blocked) Stats() BlockedStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := BlockedStats{Blocked: len(b.evals)}
	for _, e := range b.evals {
		if e.eval.QuotaLimitReached != "" {
			s.Quota++
		}
		switch {
		case keyOf(e.eval).node != "":
			s.Nodes++
		case e.eval.EscapedComputedClass:
			s.Escaped++
		}
	}
	return s
}
