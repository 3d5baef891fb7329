package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// sharedWait is the duration of a blocking query if more data is watched than there are slots, so that all of it is read
// in turn.
const sharedWait = time.Second

// queries limits the queries that run at the same time.
type queries struct {
	slots    chan struct{}
	watchers *atomic.Int32
}

func newQueries(most int) queries { return queries{make(chan struct{}, most), new(atomic.Int32)} }

// enter waits until a query may run. leave ends the query.
func (q queries) enter(ctx context.Context) error {
	select {
	case q.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q queries) leave() { <-q.slots }

// wait returns how long a blocking query may take.
func (q queries) wait(longest time.Duration) time.Duration {
	if int(q.watchers.Load()) > cap(q.slots) {
		return min(longest, sharedWait)
	}
	return longest
}
