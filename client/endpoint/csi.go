package endpoint

import (
	"context"
	"errors"
	"fmt"

	clientcsi "github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// CSI are the plugins and volumes of the node.
type CSI struct {
	Plugins *instances.Set
	Mounts  *mounts.Manager
}

// csiMethods returns the calls of servers to the CSI plugins of the node. The servers have checked the rights of their callers.
func (s *Service) csiMethods() []method {
	h := csiCalls{s.cfg.CSI}
	return []method{
		ofController(h, "ControllerAttachVolume", (*clientcsi.Plugin).AttachVolume),
		ofController(h, "ControllerDetachVolume", (*clientcsi.Plugin).DetachVolume),
		ofController(h, "ControllerValidateVolume", (*clientcsi.Plugin).ValidateVolume),
		ofController(h, "ControllerCreateVolume", (*clientcsi.Plugin).CreateVolume),
		ofController(h, "ControllerExpandVolume", (*clientcsi.Plugin).ExpandVolume),
		ofController(h, "ControllerDeleteVolume", (*clientcsi.Plugin).DeleteVolume),
		ofController(h, "ControllerListVolumes", (*clientcsi.Plugin).ListVolumes),
		ofController(h, "ControllerCreateSnapshot", (*clientcsi.Plugin).CreateSnapshot),
		ofController(h, "ControllerDeleteSnapshot", (*clientcsi.Plugin).DeleteSnapshot),
		ofController(h, "ControllerListSnapshots", (*clientcsi.Plugin).ListSnapshots),
		{relayed: rpc.Handle("CSI.NodeDetachVolume", rpc.Token, rpc.Here, h.detach).Needs(rpc.AnyToken)},
		{relayed: rpc.Handle("CSI.NodeExpandVolume", rpc.Token, rpc.Here, h.expand).Needs(rpc.AnyToken)},
	}
}

// csiCalls handles the calls of servers to the plugins of the node.
type csiCalls struct{ CSI }

// controllerRequest is a request to a controller plugin.
type controllerRequest[Req any] interface {
	*Req
	rpc.Request
	Controller() *message.CSIControllerQuery
}

// ofController returns the row of a method of a controller plugin. A plugin that does not serve on this node is an error after
// which servers ask another node.
func ofController[Req, Resp any, P controllerRequest[Req]](h csiCalls, name string,
	do func(*clientcsi.Plugin, context.Context, P) (*Resp, error)) method {
	call := func(ctx context.Context, _ *rpc.Call, req *Req) (*Resp, error) {
		p, _, err := h.Plugins.Current(instances.KindController, P(req).Controller().PluginID)
		if err != nil {
			return nil, fmt.Errorf("CSI.%s: %w: %w", name, csi.ErrRetryable, err)
		}
		resp, err := do(p, ctx, P(req))
		if err != nil {
			return nil, fmt.Errorf("CSI.%s: %w", name, err)
		}
		return resp, nil
	}
	return method{relayed: rpc.Handle[Req, Resp, P]("CSI."+name, rpc.Token, rpc.Here, call).Needs(rpc.AnyToken)}
}

// detach unmounts a volume of an allocation.
func (h csiCalls) detach(ctx context.Context, _ *rpc.Call, req *message.ClientCSINodeDetachVolumeRequest) (
	*message.ClientCSINodeDetachVolumeResponse, error) {
	for _, missing := range []struct{ value, text string }{
		{req.PluginID, "PluginID is required"}, {req.VolumeID, "VolumeID is required"}, {req.AllocID, "AllocID is required"},
	} {
		if missing.value == "" {
			return nil, errors.New("CSI.NodeDetachVolume: " + missing.text)
		}
	}
	if err := h.Mounts.Detach(ctx, req); err != nil {
		return nil, fmt.Errorf("CSI.NodeDetachVolume: %w", err)
	}
	return &message.ClientCSINodeDetachVolumeResponse{}, nil
}

// expand makes the file system of a mounted volume as large as the volume.
func (h csiCalls) expand(ctx context.Context, _ *rpc.Call, req *message.ClientCSINodeExpandVolumeRequest) (
	*message.ClientCSINodeExpandVolumeResponse, error) {
	switch {
	case req.PluginID == "" || req.VolumeID == "":
		return nil, errors.New("CSI.NodeExpandVolume: PluginID and VolumeID are required")
	case req.Claim == nil:
		return nil, errors.New("CSI.NodeExpandVolume: Claim is required")
	}
	size, err := h.Mounts.Expand(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("CSI.NodeExpandVolume: %w", err)
	}
	return &message.ClientCSINodeExpandVolumeResponse{CapacityBytes: size}, nil
}
