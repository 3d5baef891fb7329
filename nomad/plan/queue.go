package plan

import (
	"container/heap"
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// submission is a plan and its waiting submitter.
type submission struct {
	ctx  context.Context // of the submitter
	plan *nomad.Plan
	done chan outcome // buffered, one value
	seq  uint64
}

type outcome struct {
	result *nomad.PlanResult
	err    error
}

// queue holds submissions by priority, then by arrival.
type queue struct {
	mu      sync.Mutex
	items   submissions
	seq     uint64
	running bool
	wake    wake.Signal // holds a value if items may have been added
}

func newQueue() *queue { return &queue{wake: wake.New()} }

func (q *queue) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = true
}

// close fails every waiting submission.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = false
	for _, s := range q.items {
		s.done <- outcome{err: apierror.ErrNoLeader}
	}
	q.items = nil
}

// accepts reports whether the queue takes submissions.
func (q *queue) accepts() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

func (q *queue) push(s *submission) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.running {
		return apierror.ErrNoLeader
	}
	q.seq++
	s.seq = q.seq
	heap.Push(&q.items, s)
	q.wake.Send()
	return nil
}

// pop waits for the next submission. Only the applier calls it.
func (q *queue) pop(ctx context.Context) (*submission, error) {
	for ctx.Err() == nil {
		if s := q.tryPop(); s != nil {
			return s, nil
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

func (q *queue) tryPop() *submission {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil
	}
	return heap.Pop(&q.items).(*submission)
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// submissions implements heap.Interface.
type submissions []*submission

func (h submissions) Len() int { return len(h) }

func (h submissions) Less(i, j int) bool {
	if h[i].plan.Priority != h[j].plan.Priority {
		return h[i].plan.Priority > h[j].plan.Priority
	}
	return h[i].seq < h[j].seq
}

func (h submissions) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *submissions) Push(x any)   { *h = append(*h, x.(*submission)) }

func (h *submissions) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
