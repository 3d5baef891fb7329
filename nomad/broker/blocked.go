package broker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/every"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// retryFailed is the interval between two retries of evaluations whose plans were rejected too
	// often.
	retryFailed = time.Minute
	// forgetAfter is how long an unblock is kept for evaluations that a worker still processes.
	forgetAfter = 15 * time.Minute
)

// Blocked holds the evaluations that wait for capacity.
//
// An evaluation lists the computed node classes that it checked. A class that it does not list is
// newer and counts as eligible. An escaped evaluation has constraints that depend on more than the
// class: any change may unblock it. The evaluation of a system job waits for its node only.
//
// The scheduler used the state at SnapshotIndex. Blocked keeps recent unblocks, so that capacity
// freed between that index and the call of Block is not missed.
//
// An evaluation may wait for CSI volumes that do not exist or that other jobs have claimed. It lists them in
// MissingNonNodeResources; a change of one unblocks it.
//
// An evaluation that exhausted the quota of its namespace waits for that quota. It also waits for nodes
// if another dimension was exhausted as well.
//
// Like the Broker, it is enabled on the leader only.
type Blocked struct {
	broker *Broker

	mu         sync.Mutex
	enabled    bool
	evals      map[string]*blockedEval            // all, by ID
	jobs       map[blockKey]*blockedEval          // the latest of each job (and node)
	nodes      map[string]map[string]*blockedEval // of system jobs: by node, then ID
	classes    unblocks
	byNode     unblocks
	byQuota    unblocks
	byVolume   unblocks
	duplicates []*nomad.Evaluation
	duplicate  wake.Signal // holds a value if duplicates has grown
}

type blockedEval struct {
	eval  *nomad.Evaluation
	token string
}

// blockKey identifies the job that may have one blocked evaluation. Node is set for system jobs
// only.
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

// NewBlocked returns a disabled Blocked that enqueues unblocked evaluations in broker.
func NewBlocked(broker *Broker) *Blocked {
	b := &Blocked{broker: broker, duplicate: wake.New()}
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
	b.byVolume = newUnblocks()
	b.duplicates = nil
}

// Enable lets it accept evaluations.
func (b *Blocked) Enable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enabled = true
}

// Disable drops every evaluation.
func (b *Blocked) Disable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enabled = false
	b.empty()
}

// Run periodically retries evaluations whose plans failed, until ctx ends.
func (b *Blocked) Run(ctx context.Context) error {
	return every.Tick(ctx, retryFailed, b.UnblockFailed)
}

// Block stores an evaluation that waits for capacity.
func (b *Blocked) Block(eval *nomad.Evaluation) { b.Reblock(eval, "") }

// Reblock is Block for an evaluation that a worker still holds under token.
func (b *Blocked) Reblock(eval *nomad.Evaluation, token string) {
	b.mu.Lock()
	run := b.block(&blockedEval{eval, token})
	b.mu.Unlock()
	b.enqueue(run)
}

// block stores e, and returns it if capacity was freed after its snapshot.
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
		if knownUntil(e.eval) < knownUntil(other.eval) {
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

// knownUntil returns the index of the latest state that the evaluation considered.
func knownUntil(eval *nomad.Evaluation) uint64 { return max(eval.CreateIndex, eval.SnapshotIndex) }

// drop records an evaluation that a newer one of its job replaced.
func (b *Blocked) drop(eval *nomad.Evaluation) {
	b.duplicates = append(b.duplicates, eval)
	b.duplicate.Send()
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

// missed reports whether capacity was freed between the snapshot of eval and now.
func (b *Blocked) missed(eval *nomad.Evaluation) bool {
	if q := eval.QuotaLimitReached; q != "" {
		if b.byQuota.since(eval.SnapshotIndex, func(quota string) bool { return quota == q }) {
			return true
		}
		if quotaOnly(eval) {
			return false
		}
	}
	if waits := eval.MissingNonNodeResources; len(waits) > 0 &&
		b.byVolume.since(eval.SnapshotIndex, func(volume string) bool { return slices.Contains(waits, volume) }) {
		return true
	}
	if k := keyOf(eval); k.node != "" {
		return b.byNode.since(eval.SnapshotIndex, func(node string) bool { return node == k.node })
	}
	return b.classes.since(eval.SnapshotIndex, func(class string) bool { return usable(eval, class) })
}

// quotaOnly reports whether eval waits for a quota and nothing else.
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

// usable reports whether capacity on nodes of the class may unblock eval.
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

// Unblock reports new capacity on nodes of the computed class as of index.
func (b *Blocked) Unblock(computedClass string, index uint64) {
	b.unblock(func() []*blockedEval {
		b.classes.add(computedClass, index)
		return among(b.evals, func(e *nomad.Evaluation) bool { return keyOf(e).node == "" && usable(e, computedClass) })
	})
}

// UnblockNode reports new capacity on the node as of index. It affects the evaluations of system
// jobs.
func (b *Blocked) UnblockNode(nodeID string, index uint64) {
	b.unblock(func() []*blockedEval {
		b.byNode.add(nodeID, index)
		return among(b.nodes[nodeID], func(e *nomad.Evaluation) bool { return !quotaOnly(e) })
	})
}

// UnblockQuota reports that the quota may have capacity as of index.
func (b *Blocked) UnblockQuota(quota string, index uint64) {
	b.unblock(func() []*blockedEval {
		b.byQuota.add(quota, index)
		return among(b.evals, func(e *nomad.Evaluation) bool { return e.QuotaLimitReached == quota })
	})
}

// UnblockVolume reports that more allocations may use the CSI volume as of index. It affects the evaluations that list it
// in MissingNonNodeResources.
func (b *Blocked) UnblockVolume(volume string, index uint64) {
	b.unblock(func() []*blockedEval {
		b.byVolume.add(volume, index)
		return among(b.evals, func(e *nomad.Evaluation) bool {
			return !quotaOnly(e) && slices.Contains(e.MissingNonNodeResources, volume)
		})
	})
}

// UnblockFailed enqueues the evaluations that are blocked because their plans were rejected too
// often.
func (b *Blocked) UnblockFailed() {
	b.unblock(func() []*blockedEval {
		return among(b.evals, func(e *nomad.Evaluation) bool { return e.TriggeredBy == nomad.EvalTriggerMaxPlans })
	})
}

// unblock enqueues the evaluations that due returns. It calls due with b.mu, and not while b is disabled.
func (b *Blocked) unblock(due func() []*blockedEval) {
	b.mu.Lock()
	var run []*blockedEval
	if b.enabled {
		run = due()
		b.removeAll(run)
	}
	b.mu.Unlock()
	b.enqueue(run)
}

// among returns the evaluations that are due.
func among(evals map[string]*blockedEval, due func(*nomad.Evaluation) bool) (out []*blockedEval) {
	for _, e := range evals {
		if due(e.eval) {
			out = append(out, e)
		}
	}
	return out
}

// Untrack drops the evaluations of a job that is fully placed or removed.
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

// forget drops one evaluation that has ended.
func (b *Blocked) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.evals[id]; e != nil {
		b.remove(e)
	}
}

// forgetUntil records that unblocks up to index are no longer known.
func (b *Blocked) forgetUntil(index uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.classes.forgotten = max(b.classes.forgotten, index)
	b.byNode.forgotten = max(b.byNode.forgotten, index)
	b.byQuota.forgotten = max(b.byQuota.forgotten, index)
	b.byVolume.forgotten = max(b.byVolume.forgotten, index)
}

func (b *Blocked) removeAll(evals []*blockedEval) {
	for _, e := range evals {
		b.remove(e)
	}
}

// enqueue passes evaluations to the broker. The caller does not hold b.mu.
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

// takeDuplicates returns the evaluations that newer ones of their jobs replaced.
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
	Escaped int // escaped: any change may unblock them
	Nodes   int // of system jobs
	Quota   int // waiting for a quota
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
