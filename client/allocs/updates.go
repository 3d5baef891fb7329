package allocs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Delays between attempts to send statuses.
const (
	updateBackoffMin = 50 * time.Millisecond
	updateBackoffMax = 5 * time.Second
)

// detailWait is how long task events are delayed to be merged with another update. Each call
// adds a Raft log entry, and a task has two events before it runs.
const detailWait = 100 * time.Millisecond

// updates sends the status of allocations to the servers. One call carries everything queued,
// with the newest status of each allocation. Changes are sent at once. Details wait for
// detailWait or for the next change.
type updates struct {
	send func(ctx context.Context, allocs []*nomad.Allocation) error
	log  *slog.Logger
	wake wake.Signal
	sent uint64 // calls of send, used by Run only

	mu      sync.Mutex
	pending map[string]*nomad.Allocation
	details *time.Timer // set while details wait
}

func newUpdates(send func(context.Context, []*nomad.Allocation) error, log *slog.Logger) *updates {
	return &updates{send: send, log: log, wake: wake.New(), pending: map[string]*nomad.Allocation{}}
}

// put queues a status, replacing an older one of the same allocation.
func (u *updates) put(a *nomad.Allocation) {
	u.mu.Lock()
	u.pending[a.ID] = a
	u.mu.Unlock()
	u.wake.Send()
}

// putDetail is like put, for a status that may wait for detailWait.
func (u *updates) putDetail(a *nomad.Allocation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pending[a.ID] = a
	if u.details == nil {
		u.details = time.AfterFunc(detailWait, u.wake.Send)
	}
}

// putOlder queues a status unless a newer one of the same allocation is queued.
func (u *updates) putOlder(a *nomad.Allocation) { u.putBack([]*nomad.Allocation{a}) }

// Run sends the queued statuses until ctx ends.
func (u *updates) Run(ctx context.Context) error {
	back := backoff.Backoff{Min: updateBackoffMin, Max: updateBackoffMax}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-u.wake:
		}
		batch := u.take()
		if len(batch) == 0 {
			continue
		}
		err := u.send(ctx, batch)
		if refused, ok := errors.AsType[*apierror.RefusedAllocs](err); ok {
			// The others are applied. To repeat these would change nothing: their next status is
			// sent again.
			u.log.Error("the servers refuse the status of allocations of another node", "allocs", refused.IDs)
			err = nil
		}
		if err == nil {
			back.Reset()
			continue
		}
		u.putBack(batch)
		if ctx.Err() == nil {
			u.log.Warn("update allocations", "count", len(batch), "err", err)
		}
		if err := back.WaitJitter(ctx); err != nil {
			return err
		}
	}
}

// take empties the queue.
func (u *updates) take() []*nomad.Allocation {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.details != nil {
		u.details.Stop()
		u.details = nil
	}
	batch := make([]*nomad.Allocation, 0, len(u.pending))
	for _, a := range u.pending {
		batch = append(batch, a)
	}
	clear(u.pending)
	return batch
}

// putBack queues statuses that were not sent, except where a newer one is queued.
func (u *updates) putBack(batch []*nomad.Allocation) {
	u.mu.Lock()
	for _, a := range batch {
		if u.pending[a.ID] == nil {
			u.pending[a.ID] = a
		}
	}
	u.mu.Unlock()
	u.wake.Send()
}

// sendUpdates sends statuses to the servers. The calls are numbered, since one may reach them after its repetition.
func (s *Set) sendUpdates(ctx context.Context, allocs []*nomad.Allocation) error {
	s.updates.sent++
	req := message.AllocUpdateRequest{Alloc: allocs, Session: s.cfg.Session, Number: s.updates.sent}
	return s.cfg.Calls.Call(ctx, "Node.UpdateAlloc", &req, &message.GenericResponse{})
}
