package searches

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Prefix returns the objects with IDs that begin with a prefix.
func (s *Service) Prefix(ctx context.Context, c *rpc.Call, req *message.SearchRequest) (*message.SearchResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SearchResponse) error {
		f := finder(snap, ws, c, &req.QueryOptions)
		out.Index = f.Index()
		if err := visible(snap, c, f.Namespace); err != nil {
			return err
		}
		return f.Prefix(req, out)
	})
}

// Fuzzy returns the objects with names that contain a text.
func (s *Service) Fuzzy(ctx context.Context, c *rpc.Call, req *message.FuzzySearchRequest) (*message.FuzzySearchResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.FuzzySearchResponse) error {
		f := finder(snap, ws, c, &req.QueryOptions)
		out.Index = f.Index()
		if err := visible(snap, c, f.Namespace); err != nil {
			return err
		}
		return f.Fuzzy(req, s.limits, out)
	})
}

func finder(snap *state.Snapshot, ws memdb.WatchSet, c *rpc.Call, q *message.QueryOptions) *search.Finder {
	return &search.Finder{Snapshot: snap, Watch: ws, Access: c.Access, Namespace: handler.NamespaceOf(q.Namespace)}
}

// visible returns an error if the namespace does not exist and the caller has a right in it.
func visible(snap *state.Snapshot, c *rpc.Call, namespace string) error {
	if namespace == nomad.AllNamespacesSentinel || !c.Access.Allows(acl.InAny(acl.Namespaces, namespace)) {
		return nil
	}
	return handler.KnownNamespace(snap, namespace)
}
