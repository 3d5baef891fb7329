package handler

import (
	"context"
	"errors"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// evalWriter batches evaluations. Evaluations that arrive during a write are written together
// in the next log entry. This reduces the load of many workers with small writes. No write is
// delayed to collect more.
//
// There is no goroutine for the writes. The first caller writes its own evaluations. It then
// passes the evaluations of all waiting callers to the first of these, which writes them.
type evalWriter struct {
	write func(ctx context.Context, evals []*nomad.Evaluation) (uint64, error)

	mu      sync.Mutex
	busy    bool
	waiting []*evalWrite
}

// evalWrite is the write of one caller.
type evalWrite struct {
	evals []*nomad.Evaluation
	turn  chan []*evalWrite // the batch to write, its own first; nil if it was written
	index uint64
	err   error
}

// upsert writes evaluations and returns the index of their log entry. The end of ctx does not
// cancel a write, since it may be batched with others. The limits of the log apply.
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

// errUnwritten is returned to batched callers when the writing goroutine panicked.
var errUnwritten = errors.New("the evaluation was not written")

// writeAll writes a batch as one log entry and hands over to the next caller.
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

// passOn hands over to the first waiting caller.
func (w *evalWriter) passOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.waiting
	w.waiting, w.busy = nil, len(next) > 0
	if len(next) > 0 {
		next[0].turn <- next // does not block: the channel is buffered
	}
}

// JobEval returns the evaluation for a change of a job. It is nil for periodic and
// parameterized jobs, which have no allocations of their own.
func (c *Core) JobEval(job *nomad.Job, priority int, trigger string) *nomad.Evaluation {
	if job.IsPeriodic() || job.IsParameterized() {
		return nil
	}
	if priority <= 0 {
		priority = job.Priority
	}
	priority = min(priority, nomad.JobMaxPriority) // evaluations of the servers come first
	now := c.UnixNow()
	return &nomad.Evaluation{
		ID: nomad.NewID(), Namespace: job.Namespace, Priority: priority, Type: job.Type,
		TriggeredBy: trigger, JobID: job.ID, JobModifyIndex: job.JobModifyIndex,
		Status: nomad.EvalStatusPending, CreateTime: now, ModifyTime: now,
	}
}

// UpsertEvals writes evaluations and returns the index of their log entry. Evaluations of
// concurrent calls are written together.
func (c *Core) UpsertEvals(ctx context.Context, evals ...*nomad.Evaluation) (uint64, error) {
	return c.evals.upsert(ctx, evals...)
}
