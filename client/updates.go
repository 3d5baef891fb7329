package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Waits between attempts to tell the servers of allocations.
const (
	updateBackoffMin = 50 * time.Millisecond
	updateBackoffMax = 5 * time.Second
)

// detailWait is how long the events of tasks wait for something to go with. Each call is
// an entry of the servers' log: a start has two of events before its task runs.
const detailWait = 100 * time.Millisecond

// updates carries the status of allocations to the servers: whatever is queued
// goes in one call, the newest of each allocation. What is a change goes at once; details
// of it wait a moment, and go with the next change if that comes first.
type updates struct {
	send func(ctx context.Context, allocs []*nomad.Allocation) error
	log  *slog.Logger
	wake chan struct{} // buffered 1

	mu      sync.Mutex
	pending map[string]*nomad.Allocation
	details *time.Timer // set while details wait
}

func newUpdates(send func(context.Context, []*nomad.Allocation) error, log *slog.Logger) *updates {
	return &updates{send: send, log: log, wake: make(chan struct{}, 1), pending: map[string]*nomad.Allocation{}}
}

// put queues a status in place of an older one of the same allocation.
func (u *updates) put(a *nomad.Allocation) {
	u.mu.Lock()
	u.pending[a.ID] = a
	u.mu.Unlock()
	u.nudge()
}

// putDetail is put for a status of which nobody waits to hear.
func (u *updates) putDetail(a *nomad.Allocation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pending[a.ID] = a
	if u.details == nil {
		u.details = time.AfterFunc(detailWait, u.nudge)
	}
}

// putOlder queues a status unless there is one of the same allocation, which is newer.
func (u *updates) putOlder(a *nomad.Allocation) { u.putBack([]*nomad.Allocation{a}) }

func (u *updates) nudge() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends.
func (u *updates) Run(ctx context.Context) error {
	back := backoff{min: updateBackoffMin, max: updateBackoffMax}
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
		if err == nil {
			back.reset()
			continue
		}
		u.putBack(batch)
		if ctx.Err() == nil {
			u.log.Warn("update allocations", "count", len(batch), "err", err)
		}
		if err := back.wait(ctx); err != nil {
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

// putBack queues what was not sent, unless there is something newer.
func (u *updates) putBack(batch []*nomad.Allocation) {
	u.mu.Lock()
	for _, a := range batch {
		if u.pending[a.ID] == nil {
			u.pending[a.ID] = a
		}
	}
	u.mu.Unlock()
	u.nudge()
}

// sendUpdates tells the servers.
func (c *Client) sendUpdates(ctx context.Context, allocs []*nomad.Allocation) error {
	req := nomad.AllocUpdateRequest{Alloc: allocs, WriteRequest: c.write()}
	return c.servers.Call(ctx, "Node.UpdateAlloc", &req, &nomad.GenericResponse{})
}
