package csivolumes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// ListPlugins returns a page of the plugins.
func (s *Service) ListPlugins(ctx context.Context, _ *rpc.Call,
	req *message.CSIPluginListRequest) (*message.CSIPluginListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.CSIPluginListResponse) error {
			found, next, err := page.List[*csi.Plugin]{Opts: &req.QueryOptions, Order: page.ByID,
				At:       func(p *csi.Plugin) page.Cursor { return page.Cursor{ID: p.ID} },
				Filtered: func(p *csi.Plugin) any { return p.Stub() },
				Keep:     func(p *csi.Plugin) bool { return strings.HasPrefix(p.ID, req.Prefix) }}.Page(snap.CSIPlugins(ws))
			// As in Nomad, each registration of a node changes the index of the plugins.
			out.Index = max(snap.TableIndex(state.TableCSIPlugins, state.TableNodes), 1)
			out.Plugins, out.NextToken = page.Each(found, (*csi.Plugin).Stub), next
			return err
		})
}

// Plugin returns a plugin, or nil if it does not exist. It has the allocations of its instances in the namespaces of the
// request in which the caller may read jobs.
func (s *Service) Plugin(ctx context.Context, c *rpc.Call, req *message.CSIPluginGetRequest) (*message.CSIPluginGetResponse, error) {
	namespace, reads := handler.NamespaceOf(req.Namespace), handler.Grants(c, acl.ReadJob)
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.CSIPluginGetResponse) error {
			p := snap.CSIPlugin(ws, req.ID)
			if p == nil {
				out.Index = snap.TableIndex(state.TableCSIPlugins)
				return nil
			}
			shown := *p
			shown.Allocations = []*nomad.AllocListStub{}
			out.Index = p.ModifyIndex
			for _, id := range instances(p) {
				a := snap.Alloc(ws, id)
				if a == nil || namespace != nomad.AllNamespacesSentinel && namespace != a.Namespace || !reads(a.Namespace) {
					continue
				}
				shown.Allocations = append(shown.Allocations, a.Stub(nil))
				out.Index = max(out.Index, a.ModifyIndex)
			}
			slices.SortStableFunc(shown.Allocations, func(a, b *nomad.AllocListStub) int { return cmp.Compare(b.ModifyIndex, a.ModifyIndex) })
			out.Plugin = &shown
			return nil
		})
}

// instances returns the IDs of the allocations that run a plugin, sorted.
func instances(p *csi.Plugin) []string {
	var out []string
	for _, infos := range []map[string]*nomad.CSIInfo{p.Controllers, p.Nodes} {
		for _, info := range infos {
			if info != nil && info.AllocID != "" {
				out = append(out, info.AllocID)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// DeletePlugin removes the record of a plugin without instances and jobs.
func (s *Service) DeletePlugin(ctx context.Context, _ *rpc.Call,
	req *message.CSIPluginDeleteRequest) (*message.CSIPluginDeleteResponse, error) {
	if req.ID == "" {
		return nil, apierror.Errorf(400, "missing plugin ID")
	}
	entry := &message.CSIPluginDeleteRequest{ID: req.ID, QueryOptions: message.QueryOptions{Region: s.Region}}
	index, err := s.Apply(ctx, message.CSIPluginDeleteRequestType, entry)
	if err != nil {
		return nil, err
	}
	out := &message.CSIPluginDeleteResponse{}
	out.Index = index
	return out, nil
}
