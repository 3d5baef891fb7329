package broker

import (
	"context"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// delivery is an evaluation on its way to a worker.
type delivery struct {
	eval  *nomad.Evaluation
	token string
}

// waiter is a Dequeue that found nothing.
type waiter struct {
	types []string
	ch    chan delivery // holds one; closed when the broker is disabled
}

func (w *waiter) accepts(queue string) bool { return slices.Contains(w.types, queue) }

// TryDequeue is Dequeue that does not wait: it returns nil when none is ready.
func (b *Broker) TryDequeue(types []string) (*nomad.Evaluation, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.take(types) // a disabled broker has none
	if e == nil {
		return nil, ""
	}
	d := b.deliver(e)
	return d.eval, d.token
}

// Dequeue returns the best ready evaluation of the given types, with the token
// that the worker shows from then on: by priority over all types, then the one
// that waits longest. It waits until there is one, ctx ends or the broker is
// disabled.
func (b *Broker) Dequeue(ctx context.Context, types []string) (*nomad.Evaluation, string, error) {
	b.mu.Lock()
	if !b.enabled {
		b.mu.Unlock()
		return nil, "", ErrDisabled
	}
	if e := b.take(types); e != nil {
		d := b.deliver(e)
		b.mu.Unlock()
		return d.eval, d.token, nil
	}
	w := &waiter{types: types, ch: make(chan delivery, 1)}
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()

	select {
	case d, ok := <-w.ch:
		return d.result(ok)
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiters, w); i >= 0 {
		b.waiters = slices.Delete(b.waiters, i, i+1)
		return nil, "", ctx.Err()
	}
	// It was served at the same moment: better late than lost for a minute.
	d, ok := <-w.ch
	return d.result(ok)
}

func (d delivery) result(ok bool) (*nomad.Evaluation, string, error) {
	if !ok {
		return nil, "", ErrDisabled
	}
	return d.eval, d.token, nil
}

// take removes the best ready evaluation of the given types, nil if there is none.
func (b *Broker) take(types []string) *entry {
	var best *readyQueue
	for _, t := range types {
		q := b.ready[t]
		if e := q.peek(); e != nil && (best == nil || e.before(best.peek())) {
			best = q
		}
	}
	if best == nil {
		return nil
	}
	return best.pop()
}

// deliver marks e as held by a worker and starts its clock.
func (b *Broker) deliver(e *entry) delivery {
	e.move(Deliver)
	e.deliveries++
	e.token = nomad.NewID()
	e.delivered = time.Now()
	b.measure("wait_time", e, e.came)
	b.unacked++
	b.startNackTimer(e)
	return delivery{e.eval, e.token}
}

func (b *Broker) startNackTimer(e *entry) {
	token := e.token
	e.due = time.Now().Add(b.cfg.NackTimeout)
	e.timer = time.AfterFunc(b.cfg.NackTimeout, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		held, err := b.outstanding(e.eval.ID, token)
		if err != nil || held != e || time.Now().Before(e.due) {
			return // the worker was faster
		}
		b.nack(e)
	})
}

// outstanding returns the entry that is held under token. b.mu is held.
func (b *Broker) outstanding(id, token string) (*entry, error) {
	e, ok := b.entries[id]
	if !ok || e.state != Unacked {
		return nil, describe(id, ErrNotOutstanding)
	}
	if e.token != token {
		return nil, describe(id, ErrTokenMismatch)
	}
	return e, nil
}

// Ack ends the evaluation: the worker that holds it under token is done.
func (b *Broker) Ack(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.outstanding(id, token)
	if err != nil {
		return err
	}
	b.measure("process_time", e, e.delivered)
	b.measure("response_time", e, e.came)
	b.takeBack(e)
	e.move(Ack)
	delete(b.entries, id)
	b.release(e)
	if e.requeue != nil {
		b.enqueue(e.requeue, "")
	}
	return nil
}

// Nack gives the evaluation back: it is delivered again after a delay, or goes to
// FailedQueue when it was delivered too often.
func (b *Broker) Nack(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.outstanding(id, token)
	if err != nil {
		return err
	}
	b.nack(e)
	return nil
}

func (b *Broker) nack(e *entry) {
	b.takeBack(e)
	if e.requeue != nil { // it is delivered again in any case: in its newest form
		e.eval, e.requeue = e.requeue, nil
	}
	if e.deliveries >= b.cfg.DeliveryLimit {
		e.move(GiveUp)
		b.offer(e, FailedQueue)
		return
	}
	wait := b.cfg.SubsequentNackDelay
	if e.deliveries == 1 {
		wait = b.cfg.InitialNackDelay
	}
	b.delay(e, Nack, wait)
}

// takeBack ends the delivery of e.
func (b *Broker) takeBack(e *entry) {
	e.stopTimer()
	e.token = ""
	b.unacked--
}

// Outstanding returns the token under which a worker holds the evaluation.
func (b *Broker) Outstanding(id string) (token string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[id]
	if !ok || e.state != Unacked {
		return "", false
	}
	return e.token, true
}

// OutstandingReset checks that the evaluation is held under token and gives its
// worker the full NackTimeout again.
func (b *Broker) OutstandingReset(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.outstanding(id, token)
	if err != nil {
		return err
	}
	e.stopTimer()
	b.startNackTimer(e)
	return nil
}
