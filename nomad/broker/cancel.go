package broker

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Cancel removes an evaluation that was canceled in state while it was delayed or pending. One that a worker has, or
// may get at any moment, stays: a scheduler that processes it changes nothing.
func (b *Broker) Cancel(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return
	}
	switch e.state {
	case Delayed:
		e.stopTimer()
		b.delayed--
	case Pending:
		waiting := slices.DeleteFunc(b.pending[e.job], func(p *entry) bool { return p == e })
		if b.pending[e.job] = waiting; len(waiting) == 0 {
			delete(b.pending, e.job)
		}
	default:
		return
	}
	e.move(Cancel)
	delete(b.entries, id)
	if b.holders[e.job] == e { // it was delayed by a nack
		b.release(e)
	}
}

// Discard removes the delayed evaluations of a stopped job, which have nothing to do: they would keep the job from being
// dead. The Reaper cancels them in state. Retries stay, because the work of an evaluation that failed is not done.
func (b *Broker) Discard(job nomad.NamespacedID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.cancelable)
	for id, e := range b.entries {
		if e.job != job || e.state != Delayed || e.deliveries > 0 || e.eval.TriggeredBy == nomad.EvalTriggerFailedFollowUp {
			continue
		}
		e.stopTimer()
		b.delayed--
		e.move(Cancel)
		delete(b.entries, id)
		b.cancelable = append(b.cancelable, e.eval)
	}
	if len(b.cancelable) > before {
		b.canceled.Send()
	}
}
