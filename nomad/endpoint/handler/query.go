package handler

import (
	"context"
	"math/rand/v2"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Reply is implemented by the response of every read.
type Reply[T any] interface {
	*T
	ReadMeta() *message.QueryMeta
}

// Query reads a snapshot once. It fills out, including its Index, and adds the watch channels of
// the rows that it read to ws.
type Query[T any] func(snap *state.Snapshot, ws memdb.WatchSet, out *T) error

// Condition is a Query that reports whether out is an answer before the wait time has passed.
type Condition[T any] func(snap *state.Snapshot, ws memdb.WatchSet, out *T) (done bool, err error)

// Read handles a request for one object or value. Lists use ReadList. The index of the response is at least 1.
func Read[T any, P Reply[T]](ctx context.Context, c *Core, q *message.QueryOptions, query Query[T]) (*T, error) {
	return ReadList[T, P](ctx, c, q, func(snap *state.Snapshot, ws memdb.WatchSet, out *T) error {
		err := query(snap, ws, out)
		meta := P(out).ReadMeta()
		meta.Index = max(meta.Index, 1)
		return err
	})
}

// ReadList handles a request for a list, as Nomad 2.0 does. The index of the response is 0 if
// the table was never written. A request with an index blocks until the response has a higher
// one or the wait time has passed.
func ReadList[T any, P Reply[T]](ctx context.Context, c *Core, q *message.QueryOptions, query Query[T]) (*T, error) {
	if q.MinQueryIndex == 0 {
		return once[T, P](c, nil, c.Store().Snapshot(), query)
	}
	return ReadUntil[T, P](ctx, c, q, func(snap *state.Snapshot, ws memdb.WatchSet, out *T) (done bool, err error) {
		err = query(snap, ws, out)
		return P(out).ReadMeta().Index > q.MinQueryIndex, err
	})
}

// ReadUntil runs a query until it is done or the wait time of the request has passed. The query runs again whenever the
// watched data changes.
func ReadUntil[T any, P Reply[T]](ctx context.Context, c *Core, q *message.QueryOptions, query Condition[T]) (*T, error) {
	wait := q.BlockingTimeout()
	wait += rand.N(wait/message.JitterFraction + 1)
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for done := false; ; {
		store := c.Store()
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		out, err := once[T, P](c, ws, store.Snapshot(), func(snap *state.Snapshot, ws memdb.WatchSet, out *T) (err error) {
			done, err = query(snap, ws, out)
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case done, timed.Err() != nil:
			return out, ctx.Err()
		}
		if ws.WatchCtx(timed) != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// once runs a query on one snapshot.
func once[T any, P Reply[T]](c *Core, ws memdb.WatchSet, snap *state.Snapshot, query Query[T]) (*T, error) {
	out := new(T)
	if err := query(snap, ws, out); err != nil {
		return nil, err
	}
	meta := P(out).ReadMeta()
	meta.KnownLeader, meta.LastContact = c.Cluster.Contact()
	return out, nil
}
