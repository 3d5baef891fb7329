package broker

import (
	"iter"

	"github.com/open-nomad/open-nomad/nomad"
)

// Observer receives the changes that the FSM applied, and passes them to a Broker and a Blocked. Both
// ignore them while disabled, so that an Observer may run on every server.
type Observer struct {
	broker  *Broker
	blocked *Blocked
	class   func(nodeID string) (computedClass string, ok bool)
	stopped func(job nomad.NamespacedID) bool
}

// NewObserver returns an Observer. class returns the computed class of a node in state, and stopped reports whether a
// job in state is stopped or does not exist.
func NewObserver(
	broker *Broker, blocked *Blocked, class func(nodeID string) (string, bool), stopped func(nomad.NamespacedID) bool,
) *Observer {
	return &Observer{broker: broker, blocked: blocked, class: class, stopped: stopped}
}

// Restore loads the evaluations of state at index when this server becomes the leader. Blocked
// evaluations are retried once: the previous leader may have unblocked them without processing
// them.
func (o *Observer) Restore(index uint64, evals iter.Seq[*nomad.Evaluation]) {
	o.blocked.forgetUntil(index)
	for e := range evals {
		if e.ShouldEnqueue() || e.ShouldBlock() {
			o.EvalsUpserted(index, []*nomad.Evaluation{e})
		}
	}
}

// EvalsUpserted enqueues pending evaluations, blocks those with status blocked, and removes those that were canceled.
func (o *Observer) EvalsUpserted(_ uint64, evals []*nomad.Evaluation) {
	for _, e := range evals {
		switch {
		case e.ShouldEnqueue():
			o.broker.Enqueue(e)
			if dueIn(e) > 0 {
				o.discard(e)
			}
		case e.ShouldBlock():
			o.blocked.Block(e)
		case e.Status == nomad.EvalStatusComplete && len(e.FailedTGAllocs) == 0:
			o.blocked.forget(e.ID)
			if k := keyOf(e); k.node == "" {
				o.blocked.Untrack(e.Namespace, e.JobID)
			}
			o.discard(e)
		case e.Status == nomad.EvalStatusCancelled:
			o.broker.Cancel(e.ID)
			o.blocked.forget(e.ID)
		default:
			o.blocked.forget(e.ID)
		}
	}
}

// discard removes the delayed evaluations of the job of e if it is stopped: an evaluation of the stopped job, which is
// complete or not delayed, does all that remains.
func (o *Observer) discard(e *nomad.Evaluation) {
	job := nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}
	if e.Type != nomad.JobTypeCore && o.stopped(job) {
		o.broker.Discard(job)
	}
}

// NodeChanged unblocks evaluations that may use a ready node.
func (o *Observer) NodeChanged(index uint64, n *nomad.Node) {
	if !n.Ready() {
		return
	}
	o.blocked.Unblock(n.ComputedClass, index)
	o.blocked.UnblockNode(n.ID, index)
}

// AllocsStopped unblocks evaluations that may use the capacity of terminal allocations.
func (o *Observer) AllocsStopped(index uint64, allocs []*nomad.Allocation) {
	nodes := make(map[string]bool)
	classes := make(map[string]bool)
	for _, a := range allocs {
		if nodes[a.NodeID] {
			continue
		}
		nodes[a.NodeID] = true
		o.blocked.UnblockNode(a.NodeID, index)
		if class, ok := o.class(a.NodeID); ok && !classes[class] {
			classes[class] = true
			o.blocked.Unblock(class, index)
		}
	}
}

// JobRemoved drops the blocked evaluations of a removed job.
func (o *Observer) JobRemoved(namespace, id string) { o.blocked.Untrack(namespace, id) }

// QuotasFreed unblocks evaluations that wait for the quotas.
func (o *Observer) QuotasFreed(index uint64, quotas []string) {
	for _, q := range quotas {
		o.blocked.UnblockQuota(q, index)
	}
}

// VolumesFreed unblocks evaluations that wait for the volumes.
func (o *Observer) VolumesFreed(index uint64, volumes []string) {
	for _, v := range volumes {
		o.blocked.UnblockVolume(v, index)
	}
}

// AllocsChanged does nothing: no evaluation waits for the health of an allocation.
func (o *Observer) AllocsChanged(uint64, []*nomad.Allocation) {}
