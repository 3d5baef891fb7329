package state

import (
	"fmt"
	"log/slog"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/internal/wake"
)

// op is one queued write. done receives its result.
type op struct {
	apply func(tx *bolt.Tx) error
	done  chan error   // nil if the caller does not wait
	after func() error // called after the commit; may be nil
}

// writer commits the queued writes in one goroutine.
type writer struct {
	bolt  *bolt.DB
	log   *slog.Logger
	wake  wake.Signal // the queue is not empty
	ended chan struct{}

	mu     sync.Mutex
	queue  []op
	closed bool
}

func newWriter(b *bolt.DB, log *slog.Logger) *writer {
	w := &writer{bolt: b, log: log, wake: wake.New(), ended: make(chan struct{})}
	go w.run()
	return w
}

// put queues a write and waits for its commit.
func (w *writer) put(apply func(tx *bolt.Tx) error) error {
	done := make(chan error, 1)
	if err := w.enqueue(op{apply: apply, done: done}); err != nil {
		return err
	}
	return <-done
}

// later queues a write. A failed commit is logged.
func (w *writer) later(apply func(tx *bolt.Tx) error) {
	if err := w.enqueue(op{apply: apply}); err != nil {
		w.log.Warn("write client state", "err", err)
	}
}

// withNext queues a write for the commit of the next write. after, which may be nil, is called when it is committed.
func (w *writer) withNext(apply func(tx *bolt.Tx) error, after func() error) {
	if err := w.add(op{apply: apply, after: after}); err != nil {
		w.log.Warn("write client state", "err", err)
	}
}

// enqueue queues a write and starts a commit.
func (w *writer) enqueue(o op) error {
	if err := w.add(o); err != nil {
		return err
	}
	w.wake.Send()
	return nil
}

func (w *writer) add(o op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	w.queue = append(w.queue, o)
	return nil
}

// close rejects further writes and waits until the queued ones are committed.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Send()
	w.mu.Unlock()
	<-w.ended
}

func (w *writer) run() {
	defer close(w.ended)
	for range w.wake {
		w.mu.Lock()
		batch, closed := w.queue, w.closed
		w.queue = nil
		w.mu.Unlock()
		if len(batch) > 0 {
			w.commit(batch)
		}
		if closed {
			return
		}
	}
}

// commit writes the batch in one transaction. If that fails, each write is retried alone, so
// that one bad write does not fail the others.
func (w *writer) commit(batch []op) {
	err := w.bolt.Update(func(tx *bolt.Tx) error {
		for _, o := range batch {
			if err := o.apply(tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, o := range batch {
		alone := err
		if err != nil && len(batch) > 1 {
			alone = w.bolt.Update(o.apply)
		}
		w.settle(o, alone)
	}
}

func (w *writer) settle(o op, err error) {
	if err == nil && o.after != nil {
		err = o.after()
	}
	if err != nil {
		err = fmt.Errorf("write client state: %w", err)
	}
	if o.done != nil {
		o.done <- err
	} else if err != nil {
		w.log.Error("write client state", "err", err)
	}
}
