package endpoint

import (
	"context"
	"math/rand/v2"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// reply is implemented by the response of every read.
type reply[T any] interface {
	*T
	ReadMeta() *nomad.QueryMeta
}

// query reads a snapshot once. It fills out and its Index, and adds to ws what can change the
// result.
type query[T any] func(snap *state.Snapshot, ws memdb.WatchSet, out *T) error

// read handles a request for objects. The index of the response is at least 1.
func read[T any, P reply[T]](ctx context.Context, s *Service, q *nomad.QueryOptions, look query[T]) (*T, error) {
	return readList[T, P](ctx, s, q, func(snap *state.Snapshot, ws memdb.WatchSet, out *T) error {
		err := look(snap, ws, out)
		meta := P(out).ReadMeta()
		meta.Index = max(meta.Index, 1)
		return err
	})
}

// readList handles a request for a list, as Nomad 2.0 does. The index of the response is 0 if
// the table was never written. A request with an index blocks until the response has a higher
// one or the wait time has passed. The query runs again whenever the watched data changes.
func readList[T any, P reply[T]](ctx context.Context, s *Service, q *nomad.QueryOptions, look query[T]) (*T, error) {
	if q.MinQueryIndex == 0 {
		return once[T, P](s, nil, s.store().Snapshot(), look)
	}
	wait := q.BlockingTimeout()
	wait += rand.N(wait/nomad.JitterFraction + 1)
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		store := s.store()
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		out, err := once[T, P](s, ws, store.Snapshot(), look)
		switch {
		case err != nil:
			return nil, err
		case P(out).ReadMeta().Index > q.MinQueryIndex, timed.Err() != nil:
			return out, ctx.Err()
		}
		if ws.WatchCtx(timed) != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// once runs a query on one snapshot.
func once[T any, P reply[T]](s *Service, ws memdb.WatchSet, snap *state.Snapshot, look query[T]) (*T, error) {
	out := new(T)
	if err := look(snap, ws, out); err != nil {
		return nil, err
	}
	meta := P(out).ReadMeta()
	meta.KnownLeader, meta.LastContact = s.cfg.Cluster.Contact()
	return out, nil
}

// namespaceOf returns the namespace of a request, which defaults to the default namespace.
func namespaceOf(name string) string {
	if name == "" {
		return nomad.DefaultNamespace
	}
	return name
}

// knownNamespace returns an error if the namespace does not exist.
func knownNamespace(snap *state.Snapshot, name string) error {
	if snap.Namespace(nil, name) == nil {
		return nomad.Errorf(404, "Namespace %q does not exist", name)
	}
	return nil
}

// unixNow returns the time for log entries.
func (s *Service) unixNow() int64 { return s.cfg.Now().UnixNano() }
