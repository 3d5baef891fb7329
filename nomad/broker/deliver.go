package broker

import (
	"context"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// delivery is an evaluation in transit to a worker.
type delivery struct {
	eval  *nomad.Evaluation
	token string
}

// waiter is a Dequeue call that waits.
type waiter struct {
	types []string
	ch    chan delivery // buffered, one value; closed when the broker is disabled
}

func (w *waiter) accepts(queue string) bool { return slices.Contains(w.types, queue) }

// TryDequeue is like Dequeue but returns nil instead of waiting.
func (b *Broker) TryDequeue(types []string) (*nomad.Evaluation, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.take(types) // empty if the broker is disabled
	if e == nil {
		return nil, ""
	}
	d := b.deliver(e)
	return d.eval, d.token
}

// Dequeue returns the best ready evaluation of the given types and the token for Ack and Nack. The
// order is by priority across all types, then by age. It waits until one is ready, ctx ends or the
// broker is disabled.
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
	// An evaluation was delivered at the same moment. Without this return it would be lost until the nack timeout.
	d, ok := <-w.ch
	return d.result(ok)
}

func (d delivery) result(ok bool) (*nomad.Evaluation, string, error) {
	if !ok {
		return nil, "", ErrDisabled
	}
	return d.eval, d.token, nil
}

// take removes the best ready evaluation of the given types, or returns nil.
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

// deliver marks e as outstanding and starts its timer.
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
	e.timer = time.AfterFunc(b.cfg.NackTimeout, func() { b.expire(e, token) })
}

// expire returns an evaluation whose timeout has passed. A timer cannot be stopped once it has fired, so the call may
// come after the worker ended, reset or paused the delivery. It then does nothing.
func (b *Broker) expire(e *entry, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dequeued, err := b.outstanding(e.eval.ID, token)
	if err != nil || dequeued != e || e.paused || time.Now().Before(e.due) {
		return
	}
	b.nack(e)
}

// outstanding returns the entry that is held under token. The caller holds b.mu.
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

// Ack ends the evaluation that a worker holds under token.
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

// Nack returns the evaluation. It is delivered again after a delay, or moves to FailedQueue at the
// delivery limit.
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
	if e.requeue != nil { // deliver the newest version again
		e.eval, e.requeue = e.requeue, nil
	}
	if e.deliveries >= b.cfg.DeliveryLimit {
		e.move(GiveUp)
		b.offer(e, FailedQueue)
		return
	}
	wait := b.cfg.InitialNackDelay
	if e.deliveries > 1 {
		wait = time.Duration(e.deliveries-1) * b.cfg.SubsequentNackDelay
	}
	b.delay(e, Nack, wait)
}

// takeBack ends the delivery of e.
func (b *Broker) takeBack(e *entry) {
	e.stopTimer()
	e.token, e.paused = "", false
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

// OutstandingReset checks that the evaluation is held under token and restarts its timeout, unless
// that is paused.
func (b *Broker) OutstandingReset(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.outstanding(id, token)
	if err != nil {
		return err
	}
	if !e.paused {
		e.stopTimer()
		b.startNackTimer(e)
	}
	return nil
}

// PauseNack stops the timeout of an outstanding evaluation, whose plan waits in the plan queue.
func (b *Broker) PauseNack(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.outstanding(id, token)
	if err != nil {
		return err
	}
	e.stopTimer()
	e.paused = true
	return nil
}

// ResumeNack starts the timeout of an evaluation again. It does nothing if the evaluation is no longer
// dequeued under token.
func (b *Broker) ResumeNack(id, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.outstanding(id, token)
	if err != nil || !e.paused {
		return
	}
	e.paused = false
	b.startNackTimer(e)
}
