package variables

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// maxTree is the maximum total size of the variables of one reply, in bytes. perVariable is added to the encrypted size of
// each for its metadata.
const (
	maxTree     = 8 << 20
	perVariable = 256
)

// Tree returns the variables below a prefix that the caller may read, with their items. The others are left out, as if
// they did not exist.
func (s *Service) Tree(ctx context.Context, c *rpc.Call, req *message.VariablesTreeRequest) (*message.VariablesTreeResponse, error) {
	if err := handler.NoNode(c); err != nil {
		return nil, err
	}
	c.Access.MarkChecked() // each variable is checked below
	ns := handler.NamespaceOf(req.Namespace)
	if ns == nomad.AllNamespacesSentinel {
		return nil, apierror.Errorf(400, `a tree of variables is in one namespace: use its name instead of "*"`)
	}
	// As in List, a caller without any right in the namespace gets an empty list, also when it does not exist.
	blind := !c.Access.AllowsSearch(ns)
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.VariablesTreeResponse) error {
			out.Index = snap.TableIndex(state.TableVariables)
			if !blind {
				if err := handler.KnownNamespace(snap, ns); err != nil {
					return err
				}
			}
			found, next, err := page.List[*variable.Encrypted]{Opts: &req.QueryOptions, Order: page.ByNamespace,
				At:       func(v *variable.Encrypted) page.Cursor { return page.Cursor{Namespace: v.Namespace, ID: v.Path} },
				Filtered: func(v *variable.Encrypted) any { return shown(c, &v.Metadata) },
				Keep:     func(v *variable.Encrypted) bool { return reads(c, &v.Metadata) },
			}.Page(snap.VariablesIn(ws, ns, req.Prefix))
			if err != nil {
				return err
			}
			out.NextToken = next
			out.Data, err = s.decryptAll(ctx, c, found)
			return err
		})
}

// decryptAll returns variables with their items. It fails if they are larger than maxTree.
func (s *Service) decryptAll(ctx context.Context, c *rpc.Call, found []*variable.Encrypted) ([]*variable.Decrypted, error) {
	size := 0
	for _, v := range found {
		if size += len(v.Data) + len(v.Path) + perVariable; size > maxTree {
			return nil, apierror.Errorf(400, "the variables have more than %d MiB: use a longer prefix, or pages with per_page", maxTree>>20)
		}
	}
	out := make([]*variable.Decrypted, 0, len(found))
	for _, v := range found {
		items, err := s.decrypt(ctx, v)
		if err != nil {
			return nil, err
		}
		out = append(out, &variable.Decrypted{Metadata: *shown(c, &v.Metadata), Items: items})
	}
	return out, nil
}
