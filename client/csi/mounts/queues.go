package mounts

import (
	"context"
	"slices"
	"sync"
)

// queues serialises the calls for a volume. The zero value is ready.
type queues struct {
	mu  sync.Mutex
	all map[string]*queue
}

// queue has one holder and those that wait, in their order.
type queue struct {
	held  chan struct{} // has one element while somebody holds the queue
	users int           // that hold it or wait
}

// enter waits until the caller holds all the named queues, or ctx ends. The caller then calls leave.
func (q *queues) enter(ctx context.Context, names ...string) (leave func(), err error) {
	slices.Sort(names) // all callers take them in the same order
	var held []string
	leave = func() {
		for _, name := range held {
			q.leave(name)
		}
	}
	for _, name := range slices.Compact(names) {
		if err := q.enterOne(ctx, name); err != nil {
			leave()
			return nil, err
		}
		held = append(held, name)
	}
	return leave, nil
}

func (q *queues) enterOne(ctx context.Context, name string) error {
	q.mu.Lock()
	if q.all == nil {
		q.all = map[string]*queue{}
	}
	one := q.all[name]
	if one == nil {
		one = &queue{held: make(chan struct{}, 1)}
		q.all[name] = one
	}
	one.users++
	q.mu.Unlock()
	select {
	case one.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		q.forget(name)
		return ctx.Err()
	}
}

func (q *queues) leave(name string) {
	q.mu.Lock()
	<-q.all[name].held
	q.mu.Unlock()
	q.forget(name)
}

// forget removes a user of a queue.
func (q *queues) forget(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.all[name]
	one.users--
	if one.users == 0 {
		delete(q.all, name)
	}
}
