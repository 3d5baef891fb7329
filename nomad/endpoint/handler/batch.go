package handler

import (
	"context"
	"errors"
	"sync"
)

// maxBatch is the maximum number of rows of several callers in one log entry. One caller may write more.
const maxBatch = 2000

// Batch batches small writes. Rows that arrive during a write are written together in the next log entry. No write is
// delayed to collect more.
//
// There is no goroutine for the writes. The first caller writes its own rows. It then passes the rows of all waiting
// callers to the first of these, which writes them.
type Batch[T any] struct {
	write func(ctx context.Context, rows []T) (uint64, error)

	mu      sync.Mutex
	busy    bool
	waiting []*batched[T]
}

// NewBatch returns a Batch whose log entries write writes.
func NewBatch[T any](write func(ctx context.Context, rows []T) (uint64, error)) *Batch[T] {
	return &Batch[T]{write: write}
}

// batched is the write of one caller.
type batched[T any] struct {
	rows  []T
	turn  chan []*batched[T] // the batch to write, its own first; nil if it was written
	index uint64
	err   error
}

// Write writes rows and returns the index of their log entry. The end of ctx does not cancel a write, since it may be
// batched with others. The limits of the log apply.
func (b *Batch[T]) Write(ctx context.Context, rows ...T) (uint64, error) {
	batch := &batched[T]{rows: rows, turn: make(chan []*batched[T], 1)}
	b.mu.Lock()
	if b.busy {
		b.waiting = append(b.waiting, batch)
		b.mu.Unlock()
		if batch := <-batch.turn; batch != nil {
			b.writeAll(ctx, batch)
		}
		return batch.index, batch.err
	}
	b.busy = true
	b.mu.Unlock()
	b.writeAll(ctx, []*batched[T]{batch})
	return batch.index, batch.err
}

// errUnwritten is returned to batched callers when the writing goroutine panicked.
var errUnwritten = errors.New("the batch of writes was interrupted")

// writeAll writes a batch as one log entry and hands over to the next caller.
func (b *Batch[T]) writeAll(ctx context.Context, batch []*batched[T]) {
	var all []T
	for _, one := range batch {
		all = append(all, one.rows...)
	}
	index, err := uint64(0), errUnwritten
	defer func() {
		b.passOn()
		for i, one := range batch {
			one.index, one.err = index, err
			if i > 0 {
				one.turn <- nil
			}
		}
	}()
	index, err = b.write(context.WithoutCancel(ctx), all)
}

// passOn hands over to the first waiting caller.
func (b *Batch[T]) passOn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, rows := 0, 0
	for n < len(b.waiting) && (n == 0 || rows+len(b.waiting[n].rows) <= maxBatch) {
		rows += len(b.waiting[n].rows)
		n++
	}
	next := b.waiting[:n:n]
	b.waiting, b.busy = b.waiting[n:], n > 0
	if n > 0 {
		next[0].turn <- next // does not block: the channel is buffered
	}
}
