package hostvolumes

import (
	"context"
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Get returns a volume with the allocations that use it, or nil if it does not exist.
func (s *Service) Get(ctx context.Context, _ *rpc.Call, req *message.HostVolumeGetRequest) (*message.HostVolumeGetResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.HostVolumeGetResponse) error {
			v := snap.HostVolume(ws, handler.NamespaceOf(req.Namespace), req.ID)
			if v == nil {
				out.Index = snap.TableIndex(state.TableHostVolumes)
				return nil
			}
			shown := *v
			shown.Allocations = []*nomad.AllocListStub{}
			out.Index = v.ModifyIndex
			for range snap.AllocsByNode(ws, v.NodeID) {
				break // only the watch
			}
			for _, a := range snap.HostVolumeUsers(v) {
				shown.Allocations = append(shown.Allocations, a.Stub(nil))
				out.Index = max(out.Index, a.ModifyIndex)
			}
			slices.SortFunc(shown.Allocations, func(a, b *nomad.AllocListStub) int { return strings.Compare(a.ID, b.ID) })
			out.Volume = &shown
			return nil
		})
}

// List returns a page of the volumes. A prefix selects by ID or by name.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.HostVolumeListRequest) (*message.HostVolumeListResponse, error) {
	scope := handler.Scope{Namespace: req.Namespace, May: handler.Grants(c, acl.HostVolumeRead)}
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.HostVolumeListResponse) error {
			all, err := handler.Within(snap, scope, snap.HostVolumes(ws), func(v *hostvolume.Volume) string { return v.Namespace })
			if err != nil {
				return err
			}
			found, next, err := page.List[*hostvolume.Volume]{Opts: &req.QueryOptions, Order: page.ByNamespace,
				At:       func(v *hostvolume.Volume) page.Cursor { return page.Cursor{Namespace: v.Namespace, ID: v.ID} },
				Filtered: func(v *hostvolume.Volume) any { return v.Stub() },
				Keep: func(v *hostvolume.Volume) bool {
					return (req.NodeID == "" || v.NodeID == req.NodeID) && (req.NodePool == "" || v.NodePool == req.NodePool) &&
						(strings.HasPrefix(v.ID, req.Prefix) || strings.HasPrefix(v.Name, req.Prefix))
				}}.Page(all)
			out.Index = max(snap.TableIndex(state.TableHostVolumes), 1)
			out.Volumes, out.NextToken = page.Each(found, (*hostvolume.Volume).Stub), next
			return err
		})
}

// ListClaims returns a page of the claims of groups on volumes.
func (s *Service) ListClaims(ctx context.Context, c *rpc.Call,
	req *message.TaskGroupVolumeClaimListRequest) (*message.TaskGroupVolumeClaimListResponse, error) {
	scope := handler.Scope{Namespace: req.Namespace, May: handler.Grants(c, acl.HostVolumeRead)}
	type claim = hostvolume.Claim
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.TaskGroupVolumeClaimListResponse) error {
			all, err := handler.Within(snap, scope, snap.VolumeClaims(ws), func(c *claim) string { return c.Namespace })
			if err != nil {
				return err
			}
			found, next, err := page.List[*claim]{Opts: &req.QueryOptions, Order: page.ByNamespace.Sorted(),
				At: func(c *claim) page.Cursor { return page.Cursor{Namespace: c.Namespace, ID: c.ID} },
				Keep: func(c *claim) bool {
					return (req.JobID == "" || c.JobID == req.JobID) && (req.TaskGroup == "" || c.TaskGroupName == req.TaskGroup) &&
						(req.VolumeName == "" || c.VolumeName == req.VolumeName) && strings.HasPrefix(c.ID, req.Prefix)
				}}.Page(all)
			out.Index = snap.TableIndex(state.TableVolumeClaims)
			out.Claims, out.NextToken = page.Each(found, func(c *claim) *claim { return c }), next
			return err
		})
}
