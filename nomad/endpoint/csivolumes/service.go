// Package csivolumes answers the RPC methods that list CSI plugins and volumes. This version runs no plugins, so the lists are
// empty. If state contains what servers of another build stored, the list is refused.
package csivolumes

import (
	"context"
	"net/http"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Service handles the methods.
type Service struct{ *handler.Core }

// New returns a Service.
func New(core *handler.Core) *Service { return &Service{core} }

// List lists the plugins.
func (s *Service) List(ctx context.Context, _ *rpc.Call, req *message.CSIPluginListRequest) (*message.CSIPluginListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, _ memdb.WatchSet, out *message.CSIPluginListResponse) error {
			out.Plugins, out.Index = []*csi.PluginStub{}, snap.TableIndex(state.TableNodes)
			return none(snap, "CSIPlugin", "CSI plugins")
		})
}

// ListVolumes lists the volumes.
func (s *Service) ListVolumes(ctx context.Context, _ *rpc.Call, req *message.CSIVolumeListRequest) (*message.CSIVolumeListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, _ memdb.WatchSet, out *message.CSIVolumeListResponse) error {
			out.Volumes = []*csi.Stub{}
			return none(snap, "CSIVolume", "CSI volumes")
		})
}

// none returns an error if state contains records of another build. It does not tell how many: the caller may not be
// allowed to read those of other namespaces.
func none(snap *state.Snapshot, record, feature string) error {
	if snap.Foreign()[record] > 0 {
		return apierror.Errorf(http.StatusNotImplemented,
			"%s: not part of this version: the state has some that servers of another build stored", feature)
	}
	return nil
}
