package csivolumes

import (
	"context"
	"maps"
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Get returns a volume, or nil if it does not exist. It has the allocations with claims for callers that may read jobs, and what
// the claims of ended allocations wait for.
func (s *Service) Get(ctx context.Context, c *rpc.Call, req *message.CSIVolumeGetRequest) (*message.CSIVolumeGetResponse, error) {
	namespace := handler.NamespaceOf(req.Namespace)
	readsJobs := c.Access.Allows(acl.InNamespace(namespace, acl.ReadJob))
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.CSIVolumeGetResponse) error {
			v := snap.CSIVolume(ws, namespace, req.ID)
			if v == nil {
				out.Index = snap.TableIndex(state.TableCSIVolumes)
				return nil
			}
			out.Index = v.ModifyIndex
			shown := replied(snap.ShownCSIVolume(ws, v))
			if p := snap.CSIPlugin(nil, v.PluginID); p != nil {
				out.Index = max(out.Index, p.ModifyIndex)
			}
			shown.Allocations = []*nomad.AllocListStub{}
			for _, id := range claimants(v) {
				a := snap.Alloc(ws, id)
				if a == nil {
					continue
				}
				out.Index = max(out.Index, a.ModifyIndex)
				if readsJobs {
					shown.Allocations = append(shown.Allocations, a.Stub(nil))
				}
			}
			shown.Releases = releases(snap, v)
			out.Volume = shown
			return nil
		})
}

// claimants returns the IDs of the allocations with claims on a volume, sorted.
func claimants(v *csi.Volume) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(v.WriteClaims)), maps.Keys(v.ReadClaims))
	slices.Sort(all)
	return slices.Compact(all)
}

// List returns a page of the volumes.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.CSIVolumeListRequest) (*message.CSIVolumeListResponse, error) {
	scope := handler.Scope{Namespace: req.Namespace,
		May: handler.Grants(c, acl.CSIListVolume, acl.CSIReadVolume, acl.CSIMountVolume, acl.ListJobs)}
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.CSIVolumeListResponse) error {
			all, err := handler.Within(snap, scope, snap.CSIVolumes(ws), func(v *csi.Volume) string { return v.Namespace })
			if err != nil {
				return err
			}
			for range snap.CSIPlugins(ws) {
				break // only the watch: plugins determine counts
			}
			stub := func(v *csi.Volume) *csi.Stub { return snap.ShownCSIVolume(nil, v).Stub() }
			found, next, err := page.List[*csi.Volume]{Opts: &req.QueryOptions, Order: page.ByNamespace,
				At:       func(v *csi.Volume) page.Cursor { return page.Cursor{Namespace: v.Namespace, ID: v.ID} },
				Filtered: func(v *csi.Volume) any { return stub(v) },
				Keep:     selected(snap, ws, req)}.Page(all)
			out.Index = max(snap.TableIndex(state.TableCSIVolumes, state.TableCSIPlugins), 1)
			out.Volumes, out.NextToken = page.Each(found, stub), next
			return err
		})
}

// selected returns what reports whether the parameters of a request select a volume.
func selected(snap *state.Snapshot, ws memdb.WatchSet, req *message.CSIVolumeListRequest) func(*csi.Volume) bool {
	var onNode map[string]map[string]bool
	if req.NodeID != "" {
		onNode = snap.CSIVolumesOnNode(req.NodeID)
		for range snap.AllocsByNode(ws, req.NodeID) {
			break // only the watch
		}
	}
	return func(v *csi.Volume) bool {
		return strings.HasPrefix(v.ID, req.Prefix) && (req.PluginID == "" || v.PluginID == req.PluginID) &&
			(req.NodeID == "" || onNode[v.PluginID][v.Namespace+"/"+v.ID])
	}
}
