package endpoint

import (
	"context"
	"math/rand/v2"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// reply is what every reply to a read embeds.
type reply[T any] interface {
	*T
	ReadMeta() *nomad.QueryMeta
}

// query is one look at state: it fills out, with its Index, and adds to ws what
// would change it.
type query[T any] func(snap *state.Snapshot, ws memdb.WatchSet, out *T) error

// read answers a request for objects. The index of the reply is 1 or higher.
func read[T any, P reply[T]](ctx context.Context, s *Service, q *nomad.QueryOptions, look query[T]) (*T, error) {
	return readList[T, P](ctx, s, q, func(snap *state.Snapshot, ws memdb.WatchSet, out *T) error {
		err := look(snap, ws, out)
		meta := P(out).ReadMeta()
		meta.Index = max(meta.Index, 1)
		return err
	})
}

// readList answers a request for a list. The index of the reply is 0 while the table was never
// written (compat/http-conventions.md). When the request carries an index, it waits until
// the reply has a higher one or the time is over, and looks again whenever something
// changed that the query watches (compat/wire.md section 8).
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

// once looks at one snapshot.
func once[T any, P reply[T]](s *Service, ws memdb.WatchSet, snap *state.Snapshot, look query[T]) (*T, error) {
	out := new(T)
	if err := look(snap, ws, out); err != nil {
		return nil, err
	}
	meta := P(out).ReadMeta()
	meta.KnownLeader, meta.LastContact = s.cfg.Cluster.Contact()
	return out, nil
}

// namespaceOf returns the namespace that a request names: the default one when
// it names none.
func namespaceOf(name string) string {
	if name == "" {
		return nomad.DefaultNamespace
	}
	return name
}

// knownNamespace refuses requests to namespaces that don't exist.
func knownNamespace(snap *state.Snapshot, name string) error {
	if snap.Namespace(nil, name) == nil {
		return nomad.Errorf(404, "Namespace %q does not exist", name)
	}
	return nil
}

// unixNow is the time that commands carry.
func (s *Service) unixNow() int64 { return s.cfg.Now().UnixNano() }
