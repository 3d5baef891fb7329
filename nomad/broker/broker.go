// Package broker queues the evaluations that are ready for a scheduler. A Broker delivers each of them
// to one worker at a time. A Blocked holds those that wait for capacity. The Observer passes changes of
// state to both. The Reaper writes the final status of evaluations that no worker will process.
//
// States of an evaluation in the Broker:
//
//	gone ──delay──▶ delayed ──offer──▶ ready
//	gone ──hold──▶ pending ──offer──▶ ready
//	gone ──offer──▶ ready ──deliver──▶ unacked ──ack──▶ gone
//	delayed ──hold──▶ pending ──cancel──▶ gone
//	delayed ──cancel──▶ gone
//	unacked ──nack──▶ delayed
//	unacked ──give up──▶ failed ──deliver──▶ unacked
//
// One evaluation of a job at a time holds the job: it is ready, unacked, failed, or delayed by a nack.
// Others of that job are pending, or delayed until their start time. After an ack, the Broker admits the
// best pending one and cancels the other pending ones. One is enough, because a scheduler processes the
// complete job. A delayed or pending evaluation is also removed when it is canceled in state.
//
// A worker that sends neither an ack nor a nack within NackTimeout loses the evaluation. After
// DeliveryLimit deliveries it goes to FailedQueue, which the Reaper empties.
//
// A blocked evaluation waits in Blocked until capacity that it may use becomes free, on a node or in a
// quota. It is then enqueued in the Broker.
//
// Broker and Blocked are enabled on the leader only, and disabled while the scheduler configuration
// pauses them. While disabled, both are empty: they ignore evaluations, and Dequeue returns ErrDisabled.
//
// The package does not read state, write the Raft log or run a scheduler itself: callers pass functions
// for that. A Broker has no goroutine: callers and timers do the work under one mutex. Blocked.Run has
// one goroutine, that of its caller. Reaper.Run starts one more.
package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

// FailedQueue is the type of the evaluations that reached the delivery limit.
const FailedQueue = "_failed"

// Errors of the broker.
var (
	// ErrDisabled means that this server is not the leader, or that the scheduler configuration
	// pauses the broker.
	ErrDisabled = errors.New("evaluation broker is disabled: this server is not the leader, or the broker is paused")
	// ErrNotOutstanding means that no worker holds the evaluation.
	ErrNotOutstanding = errors.New("evaluation is not outstanding")
	// ErrTokenMismatch means that another worker holds the evaluation.
	ErrTokenMismatch = errors.New("evaluation token does not match")
)

// Config of a Broker. A zero field selects the default.
type Config struct {
	// NackTimeout is how long a worker may keep an evaluation. Default 60 s.
	NackTimeout time.Duration
	// InitialNackDelay is the wait before the second delivery. Default 1 s.
	InitialNackDelay time.Duration
	// SubsequentNackDelay is the wait before the third delivery. Each later one waits longer by the
	// same time. Default 20 s.
	SubsequentNackDelay time.Duration
	// DeliveryLimit is the maximum number of deliveries of an evaluation. Default 3.
	DeliveryLimit int
	// JobLabels adds the label job to the metrics of evaluations.
	JobLabels bool
}

func (c Config) withDefaults() Config {
	if c.NackTimeout <= 0 {
		c.NackTimeout = 60 * time.Second
	}
	if c.InitialNackDelay <= 0 {
		c.InitialNackDelay = time.Second
	}
	if c.SubsequentNackDelay <= 0 {
		c.SubsequentNackDelay = 20 * time.Second
	}
	if c.DeliveryLimit <= 0 {
		c.DeliveryLimit = 3
	}
	return c
}

// Broker delivers evaluations to workers. Its methods are safe for concurrent use.
type Broker struct {
	cfg Config

	mu         sync.Mutex
	enabled    bool
	seq        uint64                          // orders evaluations of equal priority
	entries    map[string]*entry               // by evaluation ID; excludes cancelable ones
	ready      map[string]*readyQueue          // by scheduler type, and FailedQueue
	holders    map[nomad.NamespacedID]*entry   // the evaluation that holds each job
	pending    map[nomad.NamespacedID][]*entry // the evaluations that wait for the holder
	delayed    int
	unacked    int
	waiters    []*waiter
	cancelable []*nomad.Evaluation
	canceled   wake.Signal   // holds a value if cancelable has grown
	switched   chan struct{} // closed, and replaced, when enabled changes
}

// New returns a disabled Broker.
func New(cfg Config) *Broker {
	b := &Broker{cfg: cfg.withDefaults(), canceled: wake.New(), switched: make(chan struct{})}
	b.empty()
	return b
}

// empty drops all evaluations. The caller holds b.mu, or b is not shared yet.
func (b *Broker) empty() {
	for _, e := range b.entries {
		e.stopTimer()
		e.state = Gone
	}
	b.entries = make(map[string]*entry)
	b.ready = make(map[string]*readyQueue)
	b.holders = make(map[nomad.NamespacedID]*entry)
	b.pending = make(map[nomad.NamespacedID][]*entry)
	b.cancelable = nil
	b.delayed, b.unacked = 0, 0
}

// Enable lets the broker accept evaluations.
func (b *Broker) Enable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(true)
}

// Disable drops every evaluation and fails every waiting Dequeue.
func (b *Broker) Disable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(false)
	b.empty()
	for _, w := range b.waiters {
		close(w.ch)
	}
	b.waiters = nil
}

// turn sets enabled. The caller holds b.mu.
func (b *Broker) turn(enabled bool) {
	if b.enabled == enabled {
		return
	}
	b.enabled = enabled
	close(b.switched)
	b.switched = make(chan struct{})
}

// AwaitEnabled waits until the broker is enabled, or ctx ends.
func (b *Broker) AwaitEnabled(ctx context.Context) error { return b.await(ctx, true) }

// AwaitDisabled waits until the broker is disabled, or ctx ends.
func (b *Broker) AwaitDisabled(ctx context.Context) error { return b.await(ctx, false) }

func (b *Broker) await(ctx context.Context, enabled bool) error {
	for {
		b.mu.Lock()
		is, switched := b.enabled, b.switched
		b.mu.Unlock()
		if is == enabled {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-switched:
		}
	}
}

// Enabled reports whether the broker accepts evaluations.
func (b *Broker) Enabled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.enabled
}

// Enqueue adds an evaluation that a scheduler must process. One that is already in the broker is
// ignored.
func (b *Broker) Enqueue(eval *nomad.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueue(eval, "")
}

// EnqueueAll adds several evaluations, each with the token under which it is outstanding, or "". An
// outstanding one is enqueued again after its ack.
func (b *Broker) EnqueueAll(evals map[*nomad.Evaluation]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for eval, token := range evals {
		b.enqueue(eval, token)
	}
}

func (b *Broker) enqueue(eval *nomad.Evaluation, token string) {
	if !b.enabled {
		return
	}
	if e, ok := b.entries[eval.ID]; ok {
		b.again(e, eval, token)
		return
	}
	b.seq++
	e := &entry{eval: eval, seq: b.seq, came: time.Now(), job: nomad.NamespacedID{ID: eval.JobID, Namespace: eval.Namespace}}
	b.entries[eval.ID] = e
	if wait := dueIn(eval); wait > 0 {
		b.delay(e, Delay, wait)
		return
	}
	b.admit(e)
}

// again handles an evaluation that is already in the broker. It is requeued only if it was
// unblocked while a worker held it: the worker's snapshot may predate the new capacity.
func (b *Broker) again(e *entry, eval *nomad.Evaluation, token string) {
	if e.state == Unacked {
		if token == e.token || eval.ShouldBlock() {
			e.requeue = eval
		}
		return
	}
	if eval.ModifyIndex > e.eval.ModifyIndex && eval.Priority == e.eval.Priority && eval.Type == e.eval.Type {
		e.eval = eval
	}
}

// dueIn returns how long the evaluation has to wait.
func dueIn(eval *nomad.Evaluation) time.Duration {
	if !eval.WaitUntil.IsZero() {
		return time.Until(eval.WaitUntil)
	}
	return eval.Wait
}

// delay postpones the admission of e.
func (b *Broker) delay(e *entry, ev Event, wait time.Duration) {
	e.move(ev)
	e.due = time.Now().Add(wait)
	b.delayed++
	e.timer = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.entries[e.eval.ID] != e || e.state != Delayed {
			return // disabled in the meantime
		}
		b.delayed--
		b.admit(e)
	})
}

// admit makes e ready, or pending if another evaluation holds the job.
func (b *Broker) admit(e *entry) {
	if h := b.holders[e.job]; h != nil && h != e {
		e.move(Hold)
		b.pending[e.job] = append(b.pending[e.job], e)
		return
	}
	b.holders[e.job] = e
	e.move(Offer)
	b.offer(e, e.eval.Type)
}

// offer delivers e to the first worker that waits for its type, or queues it.
func (b *Broker) offer(e *entry, queue string) {
	for i, w := range b.waiters {
		if w.accepts(queue) {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			w.ch <- b.deliver(e)
			return
		}
	}
	q := b.ready[queue]
	if q == nil {
		q = &readyQueue{}
		b.ready[queue] = q
	}
	q.push(e)
}

// release ends the hold of e on its job and admits the best pending one.
func (b *Broker) release(e *entry) {
	delete(b.holders, e.job)
	waiting := b.pending[e.job]
	if len(waiting) == 0 {
		return
	}
	delete(b.pending, e.job)
	best := waiting[0]
	for _, p := range waiting[1:] {
		if p.supersedes(best) {
			best = p
		}
	}
	for _, p := range waiting {
		if p != best {
			p.move(Cancel)
			delete(b.entries, p.eval.ID)
			b.cancelable = append(b.cancelable, p.eval)
		}
	}
	if len(waiting) > 1 {
		b.canceled.Send()
	}
	b.admit(best)
}

// takeCancelable returns the evaluations that others made redundant.
func (b *Broker) takeCancelable() []*nomad.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.cancelable
	b.cancelable = nil
	return out
}

// describe adds the evaluation ID to an error.
func describe(id string, err error) error { return fmt.Errorf("evaluation %s: %w", id, err) }
