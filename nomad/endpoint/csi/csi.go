// Package csi answers the RPC method that lists CSI plugins. This version runs none, so the list is
// empty. If state contains plugins that servers of another build stored, the list is refused.
package csi

import (
	"context"
	"net/http"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Service handles the method.
type Service struct{ *handler.Core }

// New returns a Service.
func New(core *handler.Core) *Service { return &Service{core} }

// List lists the plugins.
func (s *Service) List(ctx context.Context, _ *rpc.Call, req *message.CSIPluginListRequest) (*message.CSIPluginListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions, list)
}

func list(snap *state.Snapshot, _ memdb.WatchSet, out *message.CSIPluginListResponse) error {
	if n := snap.Foreign()["CSIPlugin"]; n > 0 {
		return nomad.Errorf(http.StatusNotImplemented, "CSI plugins: not part of this version: %d are stored", n)
	}
	out.Plugins = []*message.CSIPluginListStub{}
	return nil
}
