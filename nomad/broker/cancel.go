package broker

import "slices"

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
