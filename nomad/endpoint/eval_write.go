package endpoint

import (
	"context"
	"errors"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// evalWriter joins evaluations that come while others are being written into one
// log entry. Many workers write at the same time, each of them little: one entry
// costs every server the same whatever number of evaluations it holds. Nothing
// waits for more to come.
//
//	first ──▶ writes ──▶ passes on to the next that waits, with all who wait by then
type evalWriter struct {
	write func(ctx context.Context, evals []*nomad.Evaluation) (uint64, error)

	mu      sync.Mutex
	busy    bool
	waiting []*evalWrite
}

// evalWrite is what one caller writes.
type evalWrite struct {
	evals []*nomad.Evaluation
	turn  chan []*evalWrite // what to write, its own first; or nil, when it was written
	index uint64
	err   error
}

// upsert writes evaluations and returns the index of their entry. Once others wait
// with it a write can't be taken back, so the end of ctx does not end it: the bounds
// of the log do.
func (w *evalWriter) upsert(ctx context.Context, evals ...*nomad.Evaluation) (uint64, error) {
	mine := &evalWrite{evals: evals, turn: make(chan []*evalWrite, 1)}
	w.mu.Lock()
	if w.busy {
		w.waiting = append(w.waiting, mine)
		w.mu.Unlock()
		if batch := <-mine.turn; batch != nil {
			w.writeAll(ctx, batch)
		}
		return mine.index, mine.err
	}
	w.busy = true
	w.mu.Unlock()
	w.writeAll(ctx, []*evalWrite{mine})
	return mine.index, mine.err
}

// errUnwritten is what callers hear when the one that wrote for them panicked.
var errUnwritten = errors.New("the evaluation was not written")

// writeAll writes what several callers wait for as one entry, and passes the turn on.
func (w *evalWriter) writeAll(ctx context.Context, batch []*evalWrite) {
	var all []*nomad.Evaluation
	for _, one := range batch {
		all = append(all, one.evals...)
	}
	index, err := uint64(0), errUnwritten
	defer func() {
		w.passOn()
		for i, one := range batch {
			one.index, one.err = index, err
			if i > 0 {
				one.turn <- nil
			}
		}
	}()
	index, err = w.write(context.WithoutCancel(ctx), all)
}

// passOn gives the turn to the first who waits.
func (w *evalWriter) passOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.waiting
	w.waiting, w.busy = nil, len(next) > 0
	if len(next) > 0 {
		next[0].turn <- next // it has room for one
	}
}
