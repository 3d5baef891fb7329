package handler

import (
	"context"
	"iter"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Records describes how objects of one kind are read. T is the kind, S its short form in lists.
// The package of the kind has the rules: who reads which objects, and what an answer omits.
type Records[T, S any] struct {
	Tables []string                                         // a change of one can change an answer
	Get    func(*state.Snapshot, memdb.WatchSet, string) *T // returns nil if the object does not exist
	At     func(*T) page.Cursor                             // the ID or name, and for ByCreation the index
	Order  page.Order                                       // of lists without a prefix
	Index  func(*T) uint64                                  // of the last change
	Stub   func(*T) *S                                      // the short form
}

// answer is the answer to a read. Each kind has a message of its own for it.
type answer[V any] struct {
	value V
	message.QueryMeta
}

// One answers a request for the object with the ID. Without the object, the index is that of the
// tables.
func (r Records[T, S]) One(ctx context.Context, c *Core, q *message.QueryOptions, id string) (*T, message.QueryMeta, error) {
	out, err := Read(ctx, c, q, func(snap *state.Snapshot, ws memdb.WatchSet, out *answer[*T]) error {
		out.value, out.Index = r.Find(snap, ws, id)
		return nil
	})
	if err != nil {
		return nil, message.QueryMeta{}, err
	}
	return out.value, out.QueryMeta, nil
}

// Set answers a request for several objects. It omits those that do not exist.
func (r Records[T, S]) Set(ctx context.Context, c *Core, q *message.QueryOptions, ids []string) (map[string]*T, message.QueryMeta, error) {
	out, err := Read(ctx, c, q, func(snap *state.Snapshot, ws memdb.WatchSet, out *answer[map[string]*T]) error {
		out.value, out.Index = r.FindAll(snap, ws, ids), snap.TableIndex(r.Tables...)
		return nil
	})
	if err != nil {
		return nil, message.QueryMeta{}, err
	}
	return out.value, out.QueryMeta, nil
}

// List answers a request for a list: a page of the objects that all returns, with the prefix of
// the request, in their short form.
func (r Records[T, S]) List(ctx context.Context, c *Core, q *message.QueryOptions,
	all func(*state.Snapshot, memdb.WatchSet) iter.Seq[*T]) ([]*S, message.QueryMeta, error) {
	order := r.Order
	if q.Prefix != "" {
		order = page.ByID // state iterates prefixes by ID
	}
	list := page.List[*T]{Opts: q, Order: order, At: r.At,
		Keep:     func(o *T) bool { return strings.HasPrefix(r.At(o).ID, q.Prefix) },
		Filtered: func(o *T) any { return r.Stub(o) },
	}
	out, err := ReadList(ctx, c, q, func(snap *state.Snapshot, ws memdb.WatchSet, out *answer[[]*S]) error {
		found, next, err := list.Page(all(snap, ws))
		out.value, out.NextToken = page.Each(found, r.Stub), next
		out.Index = max(snap.TableIndex(r.Tables...), 1)
		return err
	})
	if err != nil {
		return nil, message.QueryMeta{}, err
	}
	return out.value, out.QueryMeta, nil
}

// Find returns the object with the ID, and the index of an answer with it.
func (r Records[T, S]) Find(snap *state.Snapshot, ws memdb.WatchSet, id string) (*T, uint64) {
	if o := r.Get(snap, ws, id); o != nil {
		return o, r.Index(o)
	}
	return nil, snap.TableIndex(r.Tables...)
}

// FindAll returns the existing objects of the IDs.
func (r Records[T, S]) FindAll(snap *state.Snapshot, ws memdb.WatchSet, ids []string) map[string]*T {
	found := map[string]*T{}
	for _, id := range ids {
		if o := r.Get(snap, ws, id); o != nil {
			found[id] = o
		}
	}
	return found
}

// Stored returns objects that were just written, as they are in state.
func (r Records[T, S]) Stored(snap *state.Snapshot, written []*T) []*T {
	out := make([]*T, 0, len(written))
	for _, o := range written {
		if now := r.Get(snap, nil, r.At(o).ID); now != nil {
			o = now
		}
		out = append(out, o)
	}
	return out
}
