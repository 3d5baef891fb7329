package nodes

import (
	"context"
	"slices"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Listing describes lists of nodes. Filters cannot access secret IDs, since a filter would
// reveal them by comparison.
func Listing(q *message.QueryOptions) page.List[*nomad.Node] {
	return page.List[*nomad.Node]{Opts: q, Order: page.ByID,
		At:       func(n *nomad.Node) page.Cursor { return page.Cursor{ID: n.ID} },
		Filtered: func(n *nomad.Node) any { return n.WithoutSecret() }}
}

// List lists nodes.
func (s *Service) List(ctx context.Context, _ *rpc.Call, req *message.NodeListRequest) (*message.NodeListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.NodeListResponse) error {
			all := snap.Nodes(ws)
			if req.Prefix != "" {
				all = snap.NodesByPrefix(ws, req.Prefix)
			}
			nodes, next, err := Listing(&req.QueryOptions).Page(all)
			if err != nil {
				return err
			}
			out.Nodes = page.Each(nodes, func(n *nomad.Node) *nomad.NodeListStub {
				stub := n.Stub(req.Fields)
				if req.Fields != nil && req.Fields.Use {
					stub.SetUse(useOf(snap, n.ID))
				}
				return stub
			})
			out.NextToken = next
			out.Index = snap.TableIndex(state.TableNodes)
			return nil
		})
}

// useOf sums the resources of the live allocations of a node. Changes of allocations do not wake a
// blocking query of nodes.
func useOf(snap *state.Snapshot, node string) *nomad.NodeUse {
	out := &nomad.NodeUse{}
	for a := range snap.LiveAllocsByNode(node) {
		used := a.AllocatedResources.Flatten()
		out.Allocations++
		out.CPU += used.CPU
		out.MemoryMB += used.MemoryMB
		out.DiskMB += used.DiskMB
	}
	return out
}

// Get returns a node without its secret ID, or nil if it does not exist. Of another node, a node gets only the address.
func (s *Service) Get(ctx context.Context, c *rpc.Call, req *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleNodeResponse) error {
		if req.NodeID == "" {
			return apierror.Errorf(400, "missing node ID")
		}
		node := snap.Node(nil, req.NodeID)
		if node == nil {
			snap.Nodes(ws)
			out.Index = snap.TableIndex(state.TableNodes)
			return nil
		}
		out.Node = snap.Node(ws, req.NodeID).WithoutSecret()
		if !c.Access.Allows(acl.ToRead(acl.Nodes)) && authz.NodeID(c.Identity) != req.NodeID {
			out.Node = out.Node.AddressOnly()
		}
		out.Index = out.Node.ModifyIndex
		return nil
	})
}

// GetAllocs returns the allocations of a node in namespaces whose jobs the caller may read.
func (s *Service) GetAllocs(ctx context.Context, c *rpc.Call, req *message.NodeSpecificRequest) (*message.NodeAllocsResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.NodeAllocsResponse) error {
			if req.NodeID == "" {
				return apierror.Errorf(400, "missing node ID")
			}
			out.Allocs = []*nomad.Allocation{}
			may := handler.Grants(c, acl.ReadJob)
			for a := range snap.AllocsByNode(ws, req.NodeID) {
				if may(a.Namespace) {
					out.Allocs = append(out.Allocs, a.Public())
				}
			}
			out.Index = snap.TableIndex(state.TableAllocs)
			return nil
		})
}

// GetClientAllocs returns the allocations of a node, each with the index at which the
// servers last changed it. Updates from the node itself do not wake the blocking query.
func (s *Service) GetClientAllocs(ctx context.Context, c *rpc.Call,
	req *message.NodeSpecificRequest) (*message.NodeClientAllocsResponse, error) {
	if err := authz.SameNode(c.Identity, req.NodeID); err != nil {
		return nil, err
	}
	if c.Conn != nil && !c.Forwarded {
		c.Conn.BindNode(req.NodeID)
	}
	had := req.AllocCount            // a client of Nomad sends 0: then the first snapshot counts
	var assigned []*nomad.Allocation // of the last snapshot; converted to the response at the end
	var last *state.Snapshot
	out, err := handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.NodeClientAllocsResponse) error {
			if snap.Node(ws, req.NodeID) == nil {
				return apierror.ErrNodeNotFound
			}
			out.Index = snap.Restored() // a restore wakes blocking queries
			out.RestoreIndex = snap.RestoreIndex()
			last = snap
			assigned = slices.AppendSeq(assigned[:0], snap.AllocsByNode(ws, req.NodeID))
			for _, a := range assigned {
				out.Index = max(out.Index, a.AllocModifyIndex)
			}
			// Garbage-collected allocations do not raise AllocModifyIndex, so use the index of
			// the table. Other nodes change it too, so only when the number shows a deletion.
			if had <= 0 {
				had = len(assigned)
			}
			if len(assigned) < had || len(assigned) == 0 {
				out.Index = snap.TableIndex(state.TableAllocs)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	out.Allocs = make(map[string]uint64, len(assigned))
	for _, a := range assigned {
		out.Allocs[a.ID] = a.AllocModifyIndex
	}
	out.MigrateTokens, err = migrateTokens(last, assigned)
	return out, err
}
