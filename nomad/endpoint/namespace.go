package endpoint

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (s *Service) namespaceList(ctx context.Context, _ *rpc.Call, req *nomad.NamespaceListRequest) (*nomad.NamespaceListResponse, error) {
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.NamespaceListResponse) error {
		all := only(snap.Namespaces(ws), func(n *nomad.Namespace) bool { return hasPrefix(n.Name, req.Prefix) })
		found, next, err := list[*nomad.Namespace]{opts: &req.QueryOptions, order: byID,
			at: func(n *nomad.Namespace) cursor { return cursor{id: n.Name} }}.page(all)
		if err != nil {
			return err
		}
		out.Namespaces = each(found, func(n *nomad.Namespace) *nomad.Namespace { return n })
		out.NextToken = next
		out.Index = snap.TableIndex(state.TableNamespaces)
		return nil
	})
}

func (s *Service) namespaceGet(ctx context.Context, _ *rpc.Call, req *nomad.NamespaceSpecificRequest) (*nomad.SingleNamespaceResponse, error) {
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.SingleNamespaceResponse) error {
		out.Namespace = snap.Namespace(ws, req.Name)
		if out.Index = snap.TableIndex(state.TableNamespaces); out.Namespace != nil {
			out.Index = out.Namespace.ModifyIndex
		}
		return nil
	})
}

func (s *Service) namespaceGetSet(ctx context.Context, _ *rpc.Call, req *nomad.NamespaceSetRequest) (*nomad.NamespaceSetResponse, error) {
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.NamespaceSetResponse) error {
		out.Namespaces = map[string]*nomad.Namespace{}
		for _, name := range req.Namespaces {
			if n := snap.Namespace(ws, name); n != nil {
				out.Namespaces[name] = n
			}
		}
		out.Index = snap.TableIndex(state.TableNamespaces)
		return nil
	})
}
