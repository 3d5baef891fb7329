package broker

import (
	"iter"

	"github.com/open-nomad/open-nomad/nomad"
)

// Observer tells a Broker and a Blocked what the FSM applied. Both take notice
// while they are enabled only, so it may observe on every server.
type Observer struct {
	broker  *Broker
	blocked *Blocked
	class   func(nodeID string) (computedClass string, ok bool)
}

// NewObserver returns an Observer. class looks up the computed class of a node in
// state.
func NewObserver(broker *Broker, blocked *Blocked, class func(nodeID string) (string, bool)) *Observer {
	return &Observer{broker: broker, blocked: blocked, class: class}
}

// Restore takes the evaluations of state at index, when this server becomes the
// leader. Those that were blocked are tried once: the leader before may have
// unblocked them and not lived to see them processed.
func (o *Observer) Restore(index uint64, evals iter.Seq[*nomad.Evaluation]) {
	o.blocked.forgetUntil(index)
	for e := range evals {
		if e.ShouldEnqueue() || e.ShouldBlock() {
			o.EvalsUpserted(index, []*nomad.Evaluation{e})
		}
	}
}

// EvalsUpserted enqueues evaluations that are work, and blocks those that wait.
func (o *Observer) EvalsUpserted(_ uint64, evals []*nomad.Evaluation) {
	for _, e := range evals {
		switch {
		case e.ShouldEnqueue():
			o.broker.Enqueue(e)
		case e.ShouldBlock():
			o.blocked.Block(e)
		case e.Status == nomad.EvalStatusComplete && len(e.FailedTGAllocs) == 0:
			o.blocked.forget(e.ID)
			if k := keyOf(e); k.node == "" {
				o.blocked.Untrack(e.Namespace, e.JobID)
			}
		default:
			o.blocked.forget(e.ID)
		}
	}
}

// NodeChanged unblocks what a node that is ready may take.
func (o *Observer) NodeChanged(index uint64, n *nomad.Node) {
	if !n.Ready() {
		return
	}
	o.blocked.Unblock(n.ComputedClass, index)
	o.blocked.UnblockNode(n.ID, index)
}

// AllocsStopped unblocks what may use the capacity of ended allocations.
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

// JobRemoved forgets the blocked evaluations of a job that is gone.
func (o *Observer) JobRemoved(namespace, id string) { o.blocked.Untrack(namespace, id) }

// QuotasFreed unblocks what waits for quotas that may have room again.
func (o *Observer) QuotasFreed(index uint64, quotas []string) {
	for _, q := range quotas {
		o.blocked.UnblockQuota(q, index)
	}
}

// AllocsChanged does nothing: no evaluation waits for the health of an allocation.
func (o *Observer) AllocsChanged(uint64, []*nomad.Allocation) {}
